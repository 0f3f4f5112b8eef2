from hermes_tools import terminal
print(terminal("printf 'a b\\n'; exit 3"))
print(terminal("cd data && X=1; export X; pwd | sed 's,.*/,,'")["output"])
print(terminal("echo $X; basename $PWD")["output"])
