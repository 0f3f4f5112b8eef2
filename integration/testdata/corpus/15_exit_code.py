import sys
print("before")
print("to stderr", file=sys.stderr)
sys.exit(7)
