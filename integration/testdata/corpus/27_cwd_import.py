import os, mymodule
print(mymodule.answer(), os.path.basename(os.getcwd()) != "", os.path.exists("data/a.txt"))
