import sys
print(sys.argv[1:], repr(sys.stdin.read()))
