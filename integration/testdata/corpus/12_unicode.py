from hermes_tools import read_file, write_file, terminal
name = "déjà vu/日本 語 🐍.txt"
text = "naïve café — ½ 日本語 🐍\n"
write_file(name, text)
print(read_file(name)["content"] == text, open(name, encoding="utf-8").read() == text)
print(terminal("cat 'déjà vu/日本 語 🐍.txt'")["output"])
print(text, end="")
