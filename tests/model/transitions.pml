/* Made from transitions.txt by transitions.py. */
#define CLIENT_FREE 0
#define CLIENT_OUTSTANDING 1
#define CLIENT_TIMED_OUT 2
#define CLIENT_ABANDONED 3
#define CLIENT_KEPT 4
#define CLIENT_ADRIFT 5
#define CLIENT_DONE 6
#define CLIENT_DONE_LATE 7
inline client_start(c) {
  if
  :: client_state[c] == CLIENT_FREE -> client_state[c] = CLIENT_OUTSTANDING
  :: client_state[c] == CLIENT_OUTSTANDING -> assert(false)
  :: client_state[c] == CLIENT_TIMED_OUT -> assert(false)
  :: client_state[c] == CLIENT_ABANDONED -> assert(false)
  :: client_state[c] == CLIENT_KEPT -> assert(false)
  :: client_state[c] == CLIENT_ADRIFT -> assert(false)
  :: client_state[c] == CLIENT_DONE -> assert(false)
  :: client_state[c] == CLIENT_DONE_LATE -> assert(false)
  fi
}
inline client_response(c) {
  if
  :: client_state[c] == CLIENT_FREE -> client_drop(c)
  :: client_state[c] == CLIENT_OUTSTANDING -> client_free_request(c); client_end(c); client_state[c] = CLIENT_DONE
  :: client_state[c] == CLIENT_TIMED_OUT -> client_free_request(c); client_free_response(c); client_state[c] = CLIENT_DONE_LATE
  :: client_state[c] == CLIENT_ABANDONED -> client_free_request(c); client_free_response(c); client_state[c] = CLIENT_FREE
  :: client_state[c] == CLIENT_KEPT -> client_drop(c)
  :: client_state[c] == CLIENT_ADRIFT -> client_drop(c)
  :: client_state[c] == CLIENT_DONE -> client_drop(c)
  :: client_state[c] == CLIENT_DONE_LATE -> client_drop(c)
  fi
}
inline client_wrong_response(c) {
  if
  :: client_state[c] == CLIENT_FREE -> client_drop(c)
  :: client_state[c] == CLIENT_OUTSTANDING -> client_drop(c)
  :: client_state[c] == CLIENT_TIMED_OUT -> client_drop(c)
  :: client_state[c] == CLIENT_ABANDONED -> client_drop(c)
  :: client_state[c] == CLIENT_KEPT -> client_drop(c)
  :: client_state[c] == CLIENT_ADRIFT -> client_drop(c)
  :: client_state[c] == CLIENT_DONE -> client_drop(c)
  :: client_state[c] == CLIENT_DONE_LATE -> client_drop(c)
  fi
}
inline client_deadline(c) {
  if
  :: client_state[c] == CLIENT_FREE -> skip
  :: client_state[c] == CLIENT_OUTSTANDING -> client_end(c); client_state[c] = CLIENT_TIMED_OUT
  :: client_state[c] == CLIENT_TIMED_OUT -> skip
  :: client_state[c] == CLIENT_ABANDONED -> skip
  :: client_state[c] == CLIENT_KEPT -> skip
  :: client_state[c] == CLIENT_ADRIFT -> skip
  :: client_state[c] == CLIENT_DONE -> skip
  :: client_state[c] == CLIENT_DONE_LATE -> skip
  fi
}
inline client_session_end(c) {
  if
  :: client_state[c] == CLIENT_FREE -> skip
  :: client_state[c] == CLIENT_OUTSTANDING -> client_free_request(c); client_end(c); client_state[c] = CLIENT_DONE
  :: client_state[c] == CLIENT_TIMED_OUT -> client_state[c] = CLIENT_KEPT
  :: client_state[c] == CLIENT_ABANDONED -> client_state[c] = CLIENT_ADRIFT
  :: client_state[c] == CLIENT_KEPT -> skip
  :: client_state[c] == CLIENT_ADRIFT -> skip
  :: client_state[c] == CLIENT_DONE -> skip
  :: client_state[c] == CLIENT_DONE_LATE -> skip
  fi
}
inline client_finish(c) {
  if
  :: client_state[c] == CLIENT_FREE -> assert(false)
  :: client_state[c] == CLIENT_OUTSTANDING -> assert(false)
  :: client_state[c] == CLIENT_TIMED_OUT -> client_state[c] = CLIENT_ABANDONED
  :: client_state[c] == CLIENT_ABANDONED -> assert(false)
  :: client_state[c] == CLIENT_KEPT -> client_state[c] = CLIENT_ADRIFT
  :: client_state[c] == CLIENT_ADRIFT -> assert(false)
  :: client_state[c] == CLIENT_DONE -> client_free_response(c); client_state[c] = CLIENT_FREE
  :: client_state[c] == CLIENT_DONE_LATE -> client_state[c] = CLIENT_FREE
  fi
}
inline client_abandon(c) {
  if
  :: client_state[c] == CLIENT_FREE -> assert(false)
  :: client_state[c] == CLIENT_OUTSTANDING -> client_end(c); client_state[c] = CLIENT_ABANDONED
  :: client_state[c] == CLIENT_TIMED_OUT -> client_state[c] = CLIENT_ABANDONED
  :: client_state[c] == CLIENT_ABANDONED -> assert(false)
  :: client_state[c] == CLIENT_KEPT -> client_state[c] = CLIENT_ADRIFT
  :: client_state[c] == CLIENT_ADRIFT -> assert(false)
  :: client_state[c] == CLIENT_DONE -> client_free_response(c); client_state[c] = CLIENT_FREE
  :: client_state[c] == CLIENT_DONE_LATE -> client_state[c] = CLIENT_FREE
  fi
}
#define EXECUTOR_NEW 0
#define EXECUTOR_SEEN 1
#define EXECUTOR_TOO_OLD 2
#define EXECUTOR_TOO_FAR 3
inline executor_request(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_run(c); executor_answer_ok(c); executor_state[c] = EXECUTOR_SEEN
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_replayed(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_stale_sequence(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_stale_sequence(c)
  fi
}
inline executor_probe(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_answer_ok(c); executor_state[c] = EXECUTOR_SEEN
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_replayed(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_stale_sequence(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_stale_sequence(c)
  fi
}
inline executor_unknown_function(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_answer_unknown_function(c); executor_state[c] = EXECUTOR_SEEN
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_replayed(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_stale_sequence(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_stale_sequence(c)
  fi
}
inline executor_draining(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_answer_draining(c); executor_state[c] = EXECUTOR_SEEN
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_replayed(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_stale_sequence(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_stale_sequence(c)
  fi
}
inline executor_expired(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_answer_deadline_expired(c); executor_state[c] = EXECUTOR_SEEN
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_replayed(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_stale_sequence(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_stale_sequence(c)
  fi
}
inline executor_wrong_epoch(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_drop_wrong_epoch(c)
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_wrong_epoch(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_wrong_epoch(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_wrong_epoch(c)
  fi
}
inline executor_bad_run(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_drop_bad_response_run(c)
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_bad_response_run(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_bad_response_run(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_bad_response_run(c)
  fi
}
inline executor_wrong_kind(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_drop_kind_mismatch(c)
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_kind_mismatch(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_kind_mismatch(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_kind_mismatch(c)
  fi
}
inline executor_not_a_header(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_drop_not_a_header(c)
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_not_a_header(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_not_a_header(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_not_a_header(c)
  fi
}
inline executor_outside(c) {
  if
  :: executor_state[c] == EXECUTOR_NEW -> executor_drop_outside_window(c)
  :: executor_state[c] == EXECUTOR_SEEN -> executor_drop_outside_window(c)
  :: executor_state[c] == EXECUTOR_TOO_OLD -> executor_drop_outside_window(c)
  :: executor_state[c] == EXECUTOR_TOO_FAR -> executor_drop_outside_window(c)
  fi
}
