# The keeper of a box on a plain sshd: lives as long as the box, carries out
# orders read from its stdin, one a line, and answers each with one line. At the
# end of its stdin, or after 25 to 30 s without an order, it ends the box.
# Before it stand: mark= name= work= tag= and run=, the text of plain_run.sh.
{
umask 077
trap '' PIPE HUP # the end of the connection is seen by read
say() { printf '%s\0' "$@"; }
fail() { printf '\n%s\n' "$mark"; say fail "$@"; printf '%s\n' "$mark"; exit 0; }

for tool in env mkdir rm chmod sleep uname id; do
	command -v $tool >/dev/null || fail missing "$tool"
done
case $work in
'' | '~') work=${HOME:-/} ;;
'~/'*) work=${HOME:-}/${work#'~/'} ;;
esac
[ -e "$work" ] || fail dir "$work: no such directory"
[ -d "$work" ] || fail notdir "$work: not a directory"
work=$(cd -P "$work" 2>/dev/null && pwd -P) || fail denied "$work: permission denied"
scratch=
for at in /tmp "${TMPDIR:-/tmp}" /var/tmp "${HOME:-/tmp}"; do
	if mkdir -m 700 "$at/$name" 2>/dev/null; then
		scratch=$(cd -P "$at/$name" && pwd -P)
		break
	fi
done
[ -n "$scratch" ] || fail scratch 'no scratch directory can be made in /tmp, $TMPDIR, /var/tmp or the home directory'
k=$scratch/.keeper
mkdir -m 700 "$k" && printf '%s' "$run" >"$k/run" || fail scratch "$k cannot be written"

# How to find what a command started: by its mark in the environment, else by
# parents and process group.
way=none
if grep -qs PATH= /proc/$$/environ; then
	way=proc
	# Some greps see no more than the first variable, unless told of NUL.
	nul=no
	printf 'a=1\0b=1\0' | grep -qzF b= 2>/dev/null && nul=yes
elif command -v ps >/dev/null && command -v awk >/dev/null; then
	way=ps
fi
group_of() { # group_of PID: sets g
	g=
	if [ $way = proc ]; then
		st=
		{ while IFS= read -r line; do st=$st$line; done <"/proc/$1/stat"; } 2>/dev/null
		set -- ${st##*) }
		g=${3:-}
	elif [ $way = ps ]; then
		g=$(ps -o pgid= -p "$1")
	fi
}
group_of $$
leads=no
[ "${g:-0}" -eq $$ ] && leads=yes
setsid=
command -v setsid >/dev/null && setsid=setsid

printf '\n%s\n' "$mark"
say ok "$scratch" "$work" "${HOME:-}" "$(id -u)" "$(uname -s)" "$(uname -m)" $way $leads "$setsid" "$$"
env -0 2>/dev/null || env | tr '\n' '\0'
printf '%s\n' "$mark"

# marked TAG: the files of the processes with the mark in their environment
marked() {
	if [ $nul = yes ]; then
		grep -lszF "HERMES_EXEC_COMMAND=$1" /proc/[0-9]*/environ
	else
		for file in /proc/[0-9]*/environ; do
			[ -r "$file" ] && tr '\0' '\n' <"$file" | grep -qF "HERMES_EXEC_COMMAND=$1" && echo "$file"
		done
	fi 2>/dev/null
}
# members TAG PID: the process groups of a command (of all, by a shorter tag)
members() {
	all=
	if [ $way = proc ]; then
		for file in $(marked "$1"); do
			pid=${file#/proc/}
			group_of "${pid%/environ}"
			case " $all " in *" $g "*) ;; *) all="$all $g" ;; esac
		done
	elif [ $way = ps ] && [ "$2" -gt 1 ]; then
		all=$(ps -A -o pid= -o ppid= -o pgid= | awk -v top="$2" '
			{ parent[$1] = $2; group[$1] = $3 }
			END {
				for (p in parent) {
					q = p
					for (n = 0; n < 1000 && q > 1 && q != top; n++) q = parent[q]
					if (q == top && group[p] > 1) found[group[p]]
				}
				for (g in found) print g
			}')
	fi
	if [ "$2" -gt 1 ]; then
		case " $all " in *" $2 "*) ;; *) kill -0 "-$2" 2>/dev/null && all="$all $2" ;; esac
	fi
}
# tell SIGNAL TAG PID: sets n, to how many groups there were
tell() {
	members "$2" "$3"
	n=0
	for g in $all; do
		case $g in '' | 0 | 1 | $$) continue ;; esac
		kill "-$1" "-$g" 2>/dev/null && n=$((n + 1))
	done
}
# pids known to the engine are told at the end too, where no mark tells
known=
finish() {
	n=1
	left=100
	while [ $n -gt 0 ] && [ $left -gt 0 ]; do
		tell KILL "$tag." 0
		[ $way = proc ] || for p in $known; do
			more=$n
			tell KILL "$tag." "$p"
			n=$((n + more))
		done
		left=$((left - 1))
		[ $n -eq 0 ] || sleep 0.05 2>/dev/null || sleep 1
		[ $way = proc ] || known=
	done
	rm -rf "$scratch" 2>/dev/null
	if [ -e "$scratch" ]; then
		find "$scratch" -type d -exec chmod 700 '{}' ';' 2>/dev/null
		rm -rf "$scratch" 2>/dev/null
	fi
	[ ! -e "$scratch" ]
}

true >"$k/beat"
(
	missed=0
	while sleep 5; do
		if [ -e "$k/beat" ]; then
			rm -f "$k/beat"
			missed=0
		else
			missed=$((missed + 1))
		fi
		if [ $missed -ge 5 ]; then
			finish
			[ $leads = no ] || kill -KILL 0
			exit 0
		fi
	done
) </dev/null >/dev/null 2>&1 &
watch=$!

while IFS= read -r order; do
	{ true >"$k/beat"; } 2>/dev/null
	set -f
	set -- $order
	set +f
	id=$1
	case $2 in
	beat) echo "$id 0" ;;
	runs)
		[ $way = proc ] || known="$known $3"
		echo "$id 0"
		;;
	signal) # signal NAME TAG PID
		tell "$3" "$4" "$5"
		echo "$id $n"
		;;
	cancel) # cancel COMMAND TAG: one that may not have begun
		{ true >"$k/x$3"; } 2>/dev/null
		tell KILL "$4" 0
		echo "$id $n"
		;;
	header) # header COMMAND, then its two lines
		IFS= read -r one
		IFS= read -r two
		{ printf '%s\n%s\n' "$one" "$two" >"$k/h$3"; } 2>/dev/null && echo "$id 0" || echo "$id -1"
		;;
	mkdir) # mkdir NAME
		mkdir -m 700 "$k/$3" 2>/dev/null && echo "$id 0" || echo "$id -1"
		;;
	rmdir) # rmdir NAME
		rm -rf "$k/$3" 2>/dev/null
		[ -e "$k/$3" ] && echo "$id -1" || echo "$id 0"
		;;
	close)
		finish && echo "$id 0" || echo "$id -1"
		break
		;;
	*) echo "$id -2" ;;
	esac
done
[ ! -e "$scratch" ] || finish
kill $watch 2>/dev/null
[ $leads = no ] || kill -KILL 0
}
