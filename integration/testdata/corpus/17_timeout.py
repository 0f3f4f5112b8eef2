# timeout: 2
import time
print("partial", flush=True)
time.sleep(60)
