# Receives a program on stdin: directory, its name, which is its SHA-256, and
# the program that tells one. What nobody has used for a month goes.
umask 077; t="$1/.new$$"; trap 'rm -f "$t"' 0; trap 'exit 1' 1 2 15
cat >"$t" || exit 4
h=$($3 <"$t") || exit 5
case $h in "$2"*) ;; *) exit 6 ;; esac
# All may run root's, whose boxes are other users; the directory keeps them out.
m=700; [ "$(id -u)" != 0 ] || m=755
chmod $m "$t" && mv -f "$t" "$1/$2" || exit 4
find "$1" -type f -mtime +30 -exec rm -f {} + 2>/dev/null
exit 0
