#!/usr/bin/env python3
"""The same as `aevnmt data`, under the name that it had before."""

import sys

from aevnmt_tf.get_data import main

if __name__ == "__main__":
    sys.exit(main())
