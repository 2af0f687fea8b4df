"""Native messages in Python's logging."""

import logging

import invoker
from conftest import comes_true, run_script


def test_messages_are_records_of_the_logger_invoker(tmp_path, caplog):
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-of-many-characters\n")
    tokens.chmod(0o600)
    with caplog.at_level(logging.INFO, logger="invoker"):
        with invoker.serve({"echo": bytes}, token_file=tokens) as server:
            tokens.write_text("a-token-of-many-characters\nanother-token-of-characters\n")
            invoker.connect(server.address, token_file=tokens).close()
            assert comes_true(lambda: caplog.records)
    record = caplog.records[0]
    assert record.name == "invoker" and record.levelno == logging.INFO
    assert record.getMessage() == "tokens read again from %s: 2" % tokens
    assert record.thread > 0 and (record.lease, record.session) == (0, 0)


def test_a_program_with_messages_on_their_way_ends(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-of-many-characters\n")
    tokens.chmod(0o600)
    code = """
        import logging
        logging.basicConfig(level=logging.INFO, format="%%(levelname)s %%(name)s %%(message)s")
        server = invoker.serve({"echo": bytes}, token_file=%r)
        for i in range(3):
            with open(%r, "a") as file:
                print("another-token-of-characters%%d" %% i, file=file)
            invoker.connect(server.address, token_file=%r).close()
        """ % ((str(tokens),) * 3)
    done = run_script(code)
    assert "INFO invoker tokens read again from %s: " % tokens in done.stderr
