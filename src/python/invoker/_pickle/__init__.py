"""Python objects and functions as bytes."""

import importlib.util
import os
import sys

# A wheel brings cloudpickle along. A pickle names the module, so it has to have its usual name.
_vendor = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_vendor")
if os.path.isdir(_vendor) and importlib.util.find_spec("cloudpickle") is None:
    sys.path.append(_vendor)
