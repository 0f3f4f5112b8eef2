# timeout: 3
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    time.sleep(300)
print("deaf", flush=True)
time.sleep(300)
