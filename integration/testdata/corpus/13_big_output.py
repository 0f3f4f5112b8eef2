import sys
for i in range(200000):
    print("line", i)
print("the end")
sys.stderr.write("e" * 30000)
