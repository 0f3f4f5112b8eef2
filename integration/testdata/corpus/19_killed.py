import os, signal
print("so long", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
