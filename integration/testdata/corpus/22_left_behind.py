import subprocess
subprocess.Popen(["sleep", "300"], start_new_session=True)
print("left one behind")
