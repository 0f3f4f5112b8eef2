def broken():
    raise ValueError("no good")
print("started", flush=True)
broken()
