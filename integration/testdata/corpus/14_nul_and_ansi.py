import sys
sys.stdout.buffer.write(b"a\x00b \x1b[31mred\x1b[0m \xff\xfe end\n")
