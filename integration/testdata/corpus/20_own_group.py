import os, signal
print("the group", flush=True)
os.killpg(0, signal.SIGTERM)
