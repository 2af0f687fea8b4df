"""Futures whose dispatchers meet what is rare: callbacks that close, no threads, forks."""

import concurrent.futures
import threading

import invoker
from conftest import run_script


def test_callbacks_of_calls_of_two_executors_may_close_the_group():
    rounds = 5
    leave = [threading.Event() for _ in range(rounds)]

    def wait(request):
        leave[request[0]].wait()

    def fail(request):
        leave[request[0]].wait(0.01)
        raise ValueError("for the callback")

    functions = {"wait": wait, "fail": fail}
    with invoker.serve(functions) as first, invoker.serve(functions) as second:
        for number in range(rounds):
            group = invoker.connect(first.address + "," + second.address)
            closed = threading.Semaphore(0)

            def close(_, group=group, closed=closed):
                group.close()
                closed.release()

            try:
                futures = [group.submit(name, bytes([number])) for name in ("fail", "wait", "wait", "wait")]
                for future in futures:
                    future.add_done_callback(close)
                _, late = concurrent.futures.wait(futures, timeout=60)
                assert not late
                assert all(closed.acquire(timeout=60) for _ in futures)
            finally:
                leave[number].set()


def test_a_forked_process_is_told_though_its_parent_was_in_the_middle_of_a_call():
    run_script(
        """
        import threading
        with invoker.serve({"echo": bytes}) as server, invoker.serve({"echo": bytes}) as other:
            client = invoker.connect(server.address)
            group = invoker.connect(server.address + "," + other.address)
            taken, give_back = threading.Semaphore(0), threading.Event()
            def hold(lock):
                with lock:
                    taken.release()
                    give_back.wait()
            locks = [client._calls.dispatcher._lock, group._calls.dispatcher._lock, group._own_lease._lock]
            threads = [threading.Thread(target=hold, args=(lock,)) for lock in locks]
            for thread in threads:
                thread.start()
                taken.acquire()
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                for use in (client.submit, group.submit, group.call):
                    try:
                        use("echo", b"x")
                    except invoker.FailedPrecondition as error:
                        assert "fork" in str(error), error
                    else:
                        os._exit(7)
                group.close()
                client.close()
                os._exit(5)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
            give_back.set()
            for thread in threads:
                thread.join()
            assert client.submit("echo", b"x").result() == group.call("echo", b"x") == b"x"
            group.close()
            client.close()
        """
    )
