"""A test of every fabric on which the hostile suite runs."""

load("//tests/efa_device:on_card.bzl", "card_test")

_FABRICS = {
    "tcp": "tcp;ofi_rxm",
    "shm": "shm",
}

def hostile_tests():
    """Defines FABRIC_AUTH_test, with few tries of each attack: many are for `hostile --tries`."""

    # By hand, until the conformance suite passes on every card.
    for auth in ("off", "header", "full"):
        card_test(
            name = "efa_card_%s_test" % auth,
            size = "medium",
            args = ["--provider=efa", "--data_auth=" + auth, "--tries=60"],
            program = ":hostile",
            tags = ["manual"],
        )
    for name, provider in _FABRICS.items():
        for auth in ("off", "header", "full"):
            native.sh_test(
                name = "%s_%s_test" % (name, auth),
                size = "medium",
                srcs = [":hostile"],
                args = ["'--provider=%s'" % provider, "--data_auth=" + auth, "--tries=60"],
                data = [":hostile"],
            )
