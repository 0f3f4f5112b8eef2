# Tells what host this is, and where a program can be put and run. Before it
# stands mark=; fields end in NUL.
{
umask 077
say() { printf '%s\0' "$@"; }
printf '\n%s\n' "$mark"
say "$(uname -s 2>/dev/null)" "$(uname -m 2>/dev/null)" "${HOME:-}"
p=$(command -v python3 2>/dev/null) || p=
v=
[ -z "$p" ] || v=$("$p" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || v=
say "$p" "$v"
hash=
for h in sha256sum 'shasum -a 256' 'openssl dgst -sha256 -r' 'sha256 -q'; do
	case $(printf abc | $h 2>/dev/null) in
	ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad*)
		hash=$h
		break
		;;
	esac
done
say "$hash"
me=$(id -u)
found= why=
for d in "${HOME:-/nonexistent}/.cache/hermes-exec/guests" "/var/tmp/hermes-exec-$me/guests" "/tmp/hermes-exec-$me/guests" "${XDG_RUNTIME_DIR:-/nonexistent}/hermes-exec/guests"; do
	mkdir -p "${d%/*}" 2>/dev/null && mkdir -p -m 700 "$d" 2>/dev/null
	if [ ! -d "$d" ] || [ -L "$d" ] || [ -L "${d%/*}" ] || [ ! -O "$d" ] || [ ! -O "${d%/*}" ]; then
		why="$why$d cannot be made; "
		continue
	fi
	chmod 700 "$d" "${d%/*}" 2>/dev/null
	t=$d/.try$$
	if ! { printf '#!/bin/sh\nexit 0\n' >"$t"; } 2>/dev/null; then
		why="$why$d cannot be written; "
	elif chmod 700 "$t" && "$t" 2>/dev/null; then
		rm -f "$t"
		found=$d
		break
	else
		why="$why$d is mounted noexec; "
	fi
	rm -f "$t"
	rmdir "$d" 2>/dev/null && rmdir "${d%/*}" 2>/dev/null
done
say "$found" "$why"
if [ -n "$found" ]; then
	for f in "$found"/*; do
		[ -x "$f" ] && [ -f "$f" ] && [ ! -L "$f" ] && say "${f##*/}"
	done
fi
printf '%s\n' "$mark"
}
