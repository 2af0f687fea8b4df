"""A test of every fabric on which the hostile suite runs."""

_FABRICS = {
    "tcp": "tcp;ofi_rxm",
    "shm": "shm",
}

def hostile_tests():
    """Defines FABRIC_AUTH_test, with few tries of each attack: many are for `hostile --tries`."""
    for name, provider in _FABRICS.items():
        for auth in ("off", "header", "full"):
            native.sh_test(
                name = "%s_%s_test" % (name, auth),
                size = "medium",
                srcs = [":hostile"],
                args = ["'--provider=%s'" % provider, "--data_auth=" + auth, "--tries=60"],
                data = [":hostile"],
            )
