"""The version of refold, stamped into everything the compiler writes."""

VERSION = "0.1.0"
