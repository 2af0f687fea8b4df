/* The cell, credit and epoch protocol of one client and its worker (docs/reference/wire_format.md, docs/design/architecture.md), for
 * Spin. What a call and a request do at each event is not written here but in transitions.txt.
 *
 * Modelled: calls that take one cell in each window; requests at adjacent cells that leave in one write; writes that
 * are placed in two parts (header, then payload), at any time and in any order; a doorbell that comes at any time after
 * that; deadlines; callers that give up; cancellation by a write of its own into the request's flags; a worker that
 * dies at any point; sessions that end on either side, and the next one, whose memory may be the same; doorbells that a
 * hostile peer rings.
 *
 * Assumed: what is posted to a live peer arrives, once. Memory that is retired is given to nobody until nothing can be
 * placed in it any more.
 *
 * -D switches: CALLS, CELLS, SESSIONS, DEATHS, CANCELS, TIMEOUTS, FORGED: how many, at most. DATA_AUTH: a tag over each message, so
 * that one that is half there is no message. All others, listed in check.py, break a rule each; Spin then has to find
 * what comes of it.
 */

#ifndef CALLS
#define CALLS 3
#endif
#ifndef CELLS
#define CELLS 2
#endif
#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef FORGED
#define FORGED 0
#endif
/* How far behind the highest a sequence number may be. */
#ifndef WIDTH
#define WIDTH CALLS
#endif

#define NO_CALL 255

/* Of a write: how far it has come. A request's and a response's both. */
#define NOWHERE 0
#define READY 1   /* stands in staging */
#define POSTED 2
#define HALF 3    /* the header is in its place, the payload is not */
#define PLACED 4  /* the doorbell is under way */
#define OVER 5

/* A call's: its number, from 0, is its sequence number. */
byte client_state[CALLS];
byte executor_state[CALLS];
bit started[CALLS];
byte session[CALLS];
byte request_cell[CALLS];
byte response_cell[CALLS];
bit request_held[CALLS];   /* the client counts the cell as taken */
bit response_held[CALLS];
byte request_write[CALLS];
byte head[CALLS];          /* whose write it goes in */
bit more[CALLS];           /* of the header in staging */
byte cancel_write[CALLS];
bit cancel_more[CALLS];    /* what it writes over `more` */
byte response_write[CALLS];
bit was_cancelled[CALLS];  /* answered so */
byte ran[CALLS];
bit ended[CALLS];          /* its caller has been told */
bit forgotten[CALLS];

/* The windows of the session at hand, by cell. Messages are calls' numbers plus one. */
byte request_memory[CELLS];
bit request_torn[CELLS];
bit request_more[CELLS];
bit request_cancelled[CELLS];
byte response_memory[CELLS];
bit response_torn[CELLS];
byte request_staging[CELLS];
byte response_staging[CELLS];
bit request_taken[CELLS];
bit response_taken[CELLS];
byte by_response_cell[CELLS];

byte current;              /* session */
bit client_live = 1;
bit executor_live = 1;
bit worker_dead;
bit same_memory;           /* this session's is the former one's */
byte batch = NO_CALL;      /* the first call of those that wait to be posted */
byte last_in_batch = NO_CALL;
byte highest;              /* sequence number accepted, plus one */
byte deaths;
byte cancels;
byte timeouts;
byte forged;
bit finished;

/* Used within one step only. */
hidden byte i;
hidden byte at;
hidden byte message;
hidden byte follows;

/* Effects that transitions.txt names. */

inline client_free_request(c) {
  /* A write into the cell may be under way still: that of the flags. */
#ifndef FREE_BEFORE_CANCEL_ENDS
  if
  :: cancel_write[c] == POSTED || cancel_write[c] == PLACED -> skip
  :: else -> release_request(c)
  fi
#else
  release_request(c)
#endif
}
inline release_request(c) {
  if
  :: request_held[c] -> request_held[c] = 0; request_taken[request_cell[c]] = 0
  :: else
  fi
}
inline client_free_response(c) {
  if
  :: response_held[c] -> response_held[c] = 0; response_taken[response_cell[c]] = 0
  :: else
  fi
}
inline client_end(c) { assert(!ended[c]); ended[c] = 1 }
inline client_drop(c) { skip }

inline executor_run(c) {
  ran[c]++;
  assert(ran[c] == 1)          /* not twice */
}
inline answer(c) {
  assert(response_write[c] == NOWHERE || response_write[c] == OVER);
  response_staging[response_cell[c]] = c + 1;
  response_write[c] = READY
}
inline executor_answer_ok(c) { answer(c) }
inline executor_answer_cancelled(c) {
  assert(cancel_write[c] != NOWHERE);   /* nobody else's */
  was_cancelled[c] = 1;
  answer(c)
}
inline executor_drop_wrong_epoch(c) { skip }
inline executor_drop_replayed(c) { skip }
inline executor_drop_stale_sequence(c) { skip }
/* Of events that are not modelled. */
inline executor_answer_unknown_function(c) { skip }
inline executor_answer_draining(c) { skip }
inline executor_answer_deadline_expired(c) { skip }
inline executor_drop_bad_response_run(c) { skip }
inline executor_drop_kind_mismatch(c) { skip }
inline executor_drop_not_a_header(c) { skip }
inline executor_drop_outside_window(c) { skip }

#include "transitions.pml"

#define UNDER_WAY(write) (write == POSTED || write == HALF)

/* Nobody may write to a cell that is about to be given to a call. */
inline check_unused(a_request_cell, a_response_cell) {
  for (i : 0 .. CALLS - 1) {
    if
    :: started[i] && session[i] == current ->
       assert(request_cell[i] != a_request_cell ||
              !(UNDER_WAY(request_write[i]) || cancel_write[i] == POSTED));
       assert(response_cell[i] != a_response_cell ||
              !((request_write[i] != OVER && response_write[i] == NOWHERE) || response_write[i] == READY ||
                UNDER_WAY(response_write[i])))
    :: else
    fi
  }
}

inline post_batch() {
  if
  :: batch != NO_CALL ->
     for (i : 0 .. CALLS - 1) {
       if
       :: started[i] && request_write[i] == READY && session[i] == current -> request_write[i] = POSTED; post_done(i)
       :: else
       fi
     }
     batch = NO_CALL;
     last_in_batch = NO_CALL
  :: else
  fi
}
inline post_done(c) {
#ifdef FREE_AT_COMPLETION
  release_request(c)
#else
  skip
#endif
}

inline start(c, a_request_cell, a_response_cell) {
  check_unused(a_request_cell, a_response_cell);
  client_start(c);
  started[c] = 1;
  session[c] = current;
  request_cell[c] = a_request_cell;
  response_cell[c] = a_response_cell;
  request_held[c] = 1;
  response_held[c] = 1;
  request_taken[a_request_cell] = 1;
  response_taken[a_response_cell] = 1;
  by_response_cell[a_response_cell] = c + 1;
  request_staging[a_request_cell] = c + 1;
  if
  :: last_in_batch != NO_CALL && request_cell[last_in_batch] + 1 == a_request_cell ->
     more[last_in_batch] = 1;
     head[c] = batch
  :: else ->
     post_batch();
     head[c] = c;
     batch = c
  fi;
  last_in_batch = c;
  request_write[c] = READY
}

/* Places a part of a call's request in the executor's window, if that is anybody's. */
inline place_request(c, is_torn) {
  at = request_cell[c];
  if
  :: session[c] == current && executor_live ->
     assert(request_staging[at] == c + 1);
     request_memory[at] = c + 1;
     request_torn[at] = is_torn;
     request_more[at] = more[c];
     if
     :: is_torn -> request_cancelled[at] = 0
     :: else
     fi
  :: session[c] < current && same_memory && executor_live ->
#ifndef LATE_PLACEMENT
     assert(!(same_memory && executor_live));   /* in memory that is another session's now */
#endif
     request_memory[at] = c + 1;
     request_torn[at] = is_torn;
     request_more[at] = more[c]
  :: else
  fi
}
inline place_response(c, is_torn) {
  at = response_cell[c];
  if
  :: session[c] == current && client_live ->
     assert(response_staging[at] == c + 1);
     response_memory[at] = c + 1;
     response_torn[at] = is_torn
  :: session[c] < current && same_memory && client_live ->
#ifndef LATE_PLACEMENT
     assert(!(same_memory && client_live));
#endif
     response_memory[at] = c + 1;
     response_torn[at] = is_torn
  :: else
  fi
}

/* What the executor does with one message that passed the checks of its form. */
inline judge(c, is_cancelled) {
#ifndef NO_EPOCH_CHECK
  if
  :: session[c] != current -> executor_wrong_epoch(c)
  :: else ->
#endif
     if
     :: c + 1 > highest -> highest = c + 1
     :: else
     fi;
#ifndef NO_SEQUENCE_WINDOW
     if
     :: highest - (c + 1) >= WIDTH -> executor_drop_stale_sequence(c)
     :: else ->
#else
     executor_state[c] = EXECUTOR_NEW;
     response_write[c] = NOWHERE;
#endif
        if
        :: is_cancelled -> executor_cancelled(c)
        :: else ->
           assert(session[c] == current);        /* not of an old epoch */
           executor_request(c)
        fi
#ifndef NO_SEQUENCE_WINDOW
     fi
#endif
#ifndef NO_EPOCH_CHECK
  fi
#endif
}

/* The executor's turn at a doorbell: the messages of that write. */
inline turn(cell) {
  at = cell;
  do
  :: at < CELLS && request_memory[at] != 0 ->
#ifdef DATA_AUTH
     if
     :: request_torn[at] -> break
     :: else
     fi;
#else
     assert(!request_torn[at] || executor_state[request_memory[at] - 1] == EXECUTOR_SEEN);
#endif
     follows = request_more[at];
     message = request_memory[at] - 1;
     judge(message, request_cancelled[at]);
     at++;
     if
     :: follows -> skip
     :: else -> break
     fi
  :: else -> break
  od;
  at = 0;
  message = 0
}

inline take_response(cell) {
  if
  :: by_response_cell[cell] == 0 || response_memory[cell] == 0 -> skip
#ifdef DATA_AUTH
  :: by_response_cell[cell] != 0 && response_memory[cell] != 0 && response_torn[cell] -> skip
#endif
  :: else ->
     message = by_response_cell[cell] - 1;
#ifndef NO_RESPONSE_MATCH
     if
     :: response_memory[cell] != message + 1 -> client_wrong_response(message)
     :: else ->
#endif
#ifndef DATA_AUTH
        assert(!response_torn[cell]);
#endif
        assert(response_memory[cell] == message + 1);      /* its own answer */
        assert(ran[message] == 1 || was_cancelled[message]);
        by_response_cell[cell] = 0;
        client_response(message)
#ifndef NO_RESPONSE_MATCH
     fi
#endif
  fi;
  message = 0
}

#define HEADS_WRITE(c, how_far) (request_write[c] == how_far && head[c] == c)

inline move_write(c, how_far) {
  for (i : 0 .. CALLS - 1) {
    if
    :: started[i] && head[i] == c && request_write[i] != NOWHERE -> request_write[i] = how_far
    :: else
    fi
  }
}

inline place_write(c, is_torn) {
  for (i : 0 .. CALLS - 1) {
    if
    :: started[i] && head[i] == c && request_write[i] != NOWHERE -> place_request(i, is_torn)
    :: else
    fi
  }
  at = 0
}

inline place_cancel(c) {
  if
  :: session[c] == current && executor_live ->
     request_cancelled[request_cell[c]] = 1;
     request_more[request_cell[c]] = cancel_more[c]
  :: else
  fi
}

#define ANY_FREE_PAIR \
  ((!request_taken[0] || !request_taken[1] || !request_taken[CELLS - 1]) && \
   (!response_taken[0] || !response_taken[1] || !response_taken[CELLS - 1]))

#define FABRIC_IDLE(c) (!UNDER_WAY(request_write[c]) && request_write[c] != PLACED && \
  !UNDER_WAY(response_write[c]) && response_write[c] != PLACED && cancel_write[c] != POSTED)

proctype Life(byte c) {
  byte q;
  byte r;
  do
  :: finished -> break

  /* The client. Calls start in order: they are alike. */
  :: atomic {
       !started[c] && client_live && (c == 0 || started[c - 1]) && ANY_FREE_PAIR ->
       if
       :: !request_taken[0] -> q = 0
       :: !request_taken[1] -> q = 1
       :: CELLS > 2 && !request_taken[CELLS - 1] -> q = CELLS - 1
       fi;
       if
       :: !response_taken[0] -> r = 0
       :: !response_taken[1] -> r = 1
       :: CELLS > 2 && !response_taken[CELLS - 1] -> r = CELLS - 1
       fi;
       d_step { start(c, q, r); i = 0; q = 0; r = 0 }
     }
  :: d_step {
       !started[c] && !client_live && current == SESSIONS - 1 && (c == 0 || started[c - 1]) ->
       started[c] = 1;           /* not sent, and its caller is told so */
       session[c] = current;
       ended[c] = 1
     }
  :: d_step { batch == c && client_live -> post_batch(); i = 0 }
  :: d_step {
       client_state[c] == CLIENT_OUTSTANDING && client_live && timeouts < TIMEOUTS ->
       timeouts++;
       client_deadline(c);
#ifdef REUSE_AT_TIMEOUT
       release_request(c);
       client_free_response(c)
#endif
     }
  :: d_step {
       client_state[c] == CLIENT_OUTSTANDING && client_live && timeouts < TIMEOUTS ->
       timeouts++;
       client_abandon(c)
     }
  :: d_step {
       (client_state[c] == CLIENT_DONE || client_state[c] == CLIENT_DONE_LATE || client_state[c] == CLIENT_TIMED_OUT ||
        client_state[c] == CLIENT_KEPT) ->
       client_finish(c)
     }
     /* Nothing asks any more where it lay: fewer states that differ in nothing. */
  :: d_step {
       !forgotten[c] && started[c] && FABRIC_IDLE(c) && cancel_write[c] != PLACED && batch != c &&
           last_in_batch != c && request_write[c] == OVER &&
           (client_state[c] == CLIENT_FREE || client_state[c] == CLIENT_ADRIFT) && !request_held[c] &&
           response_write[c] != READY ->
       forgotten[c] = 1;
       request_cell[c] = 0;
       response_cell[c] = 0;
       more[c] = 0;
       cancel_more[c] = 0;
       head[c] = c
     }
  :: d_step {
       (client_state[c] == CLIENT_OUTSTANDING || client_state[c] == CLIENT_TIMED_OUT ||
        client_state[c] == CLIENT_ABANDONED) &&
           client_live && session[c] == current && request_write[c] >= POSTED && cancel_write[c] == NOWHERE &&
           cancels < CANCELS ->
       cancels++;
       if
       :: client_state[c] == CLIENT_OUTSTANDING -> client_cancel(c)
       :: else                       /* its deadline has passed, or its caller has given up */
       fi;
       cancel_write[c] = POSTED;
#ifndef CANCEL_CUTS_CHAIN
       cancel_more[c] = more[c]
#endif
     }
  :: d_step {
       cancel_write[c] == PLACED ->     /* the client learns that the write is over */
       cancel_write[c] = OVER;
       if
       :: by_response_cell[response_cell[c]] != c + 1 && session[c] == current -> release_request(c)
       :: else
       fi
     }
  :: d_step { response_write[c] == PLACED ->
       response_write[c] = OVER;
       if
       :: session[c] == current && client_live -> take_response(response_cell[c])
       :: else
       fi
     }

  /* The fabric. */
  :: d_step { HEADS_WRITE(c, POSTED) -> place_write(c, 1); move_write(c, HALF); i = 0 }
  :: d_step { HEADS_WRITE(c, HALF) -> place_write(c, 0); move_write(c, PLACED); i = 0 }
  :: d_step { cancel_write[c] == POSTED -> place_cancel(c); cancel_write[c] = PLACED }
  :: d_step { response_write[c] == POSTED -> place_response(c, 1); response_write[c] = HALF; at = 0 }
  :: d_step { response_write[c] == HALF -> place_response(c, 0); response_write[c] = PLACED; at = 0 }
     /* What a dead worker had posted may be lost. */
  :: d_step { worker_dead && session[c] == current && UNDER_WAY(response_write[c]) -> response_write[c] = OVER }

  /* The executor. */
#ifdef DOORBELL_FIRST
  :: d_step { (HEADS_WRITE(c, POSTED) || HEADS_WRITE(c, HALF)) && executor_live && !worker_dead && session[c] == current ->
       turn(request_cell[c])
     }
#endif
  :: d_step {
       HEADS_WRITE(c, PLACED) ->
       move_write(c, OVER);
       i = 0;
       if
#ifdef NUMBER_REUSED
       :: executor_live && !worker_dead ->
#else
       :: executor_live && !worker_dead && session[c] == current ->
#endif
          turn(request_cell[c])
       :: else
       fi
     }
#ifdef POST_AFTER_FENCE
  :: d_step { response_write[c] == READY && !worker_dead -> response_write[c] = POSTED }
#else
  :: d_step { response_write[c] == READY && executor_live && !worker_dead && session[c] == current ->
       response_write[c] = POSTED
     }
#endif
  od
}

/* Over for everybody. CALLS is 2 or 3. */
#define QUIET(c) \
  (started[c] && ended[c] && FABRIC_IDLE(c) && cancel_write[c] != PLACED && \
   (client_state[c] == CLIENT_FREE || client_state[c] == CLIENT_ADRIFT))

/* Everything that is not of one call. */
proctype World() {
  bit idle;
  byte cell;
  do
  :: d_step {
       deaths < DEATHS && executor_live && !worker_dead ->
       deaths++;
       worker_dead = 1;
       executor_live = 0;
       for (i : 0 .. CALLS - 1) {
         if
         :: response_write[i] == READY && session[i] == current -> response_write[i] = OVER
         :: else
         fi
       }
       i = 0
     }
     /* The client's half ends: the worker is dead, the worker has ended the session, or the user has. */
  :: d_step {
       client_live && (current < SESSIONS - 1
#ifndef DEATH_UNNOTICED
                       || !executor_live
#endif
                       ) ->
       client_live = 0;
       batch = NO_CALL;
       last_in_batch = NO_CALL;
       for (i : 0 .. CALLS - 1) {
         if
         :: started[i] && session[i] == current && client_state[i] != CLIENT_FREE ->
            client_session_end(i);
            if
            :: request_write[i] == READY -> request_write[i] = OVER
            :: else
            fi
         :: else
         fi
       }
       i = 0
     }
     /* The executor's half: its client has gone, or the worker ends the session. */
  :: d_step {
       executor_live && (!client_live || current < SESSIONS - 1) ->
       executor_live = 0;
#ifndef POST_AFTER_FENCE
       for (i : 0 .. CALLS - 1) {
         if
         :: response_write[i] == READY && session[i] == current -> response_write[i] = OVER
         :: else
         fi
       }
#endif
       i = 0
     }
     /* The next session. */
  :: d_step {
       current < SESSIONS - 1 && !client_live && !executor_live ->
       current++;
       client_live = 1;
       executor_live = 1;
       worker_dead = 0;
       idle = 1;
       for (i : 0 .. CALLS - 1) {
         if
         :: FABRIC_IDLE(i) -> skip
         :: else -> idle = 0
         fi
       }
#ifdef MEMORY_AT_ONCE
       idle = 1;
#endif
       same_memory = idle;
       idle = 0;
       for (i : 0 .. CELLS - 1) {
         request_memory[i] = 0;
         request_torn[i] = 0;
         request_more[i] = 0;
         request_cancelled[i] = 0;
         response_memory[i] = 0;
         response_torn[i] = 0;
         request_staging[i] = 0;
         response_staging[i] = 0;
         request_taken[i] = 0;
         response_taken[i] = 0;
         by_response_cell[i] = 0
       }
       for (i : 0 .. CALLS - 1) {
         request_held[i] = 0;
         response_held[i] = 0
       }
       i = 0
     }
#if FORGED > 0
     /* Somebody rings for a cell of the session at hand. */
  :: atomic {
       forged < FORGED ->
       forged++;
       if
       :: cell = 0
       :: cell = 1
       :: CELLS > 2 -> cell = 2
       fi;
       if
       :: executor_live && !worker_dead -> d_step { turn(cell); cell = 0 }
       :: client_live -> d_step { take_response(cell); cell = 0 }
       :: else -> cell = 0
       fi
     }
#endif
     /* Quiet: every call has ended, and every credit is back. If this does not come, Spin calls it an invalid end
      * state. */
  :: d_step {
       !finished && current == SESSIONS - 1 && QUIET(0) && QUIET(1) && QUIET(CALLS - 1) ->
       if
       :: client_live ->
          for (i : 0 .. CELLS - 1) {
            assert(!request_taken[i] && !response_taken[i]);
            assert(by_response_cell[i] == 0)
          }
       :: else
       fi;
       finished = 1;
       i = 0
     }
  :: finished -> break
  od
}

init {
  atomic {
    at = 0;
    do
    :: at < CALLS -> run Life(at); at++
    :: else -> break
    od;
    run World()
  }
}
