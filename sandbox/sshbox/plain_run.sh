# Becomes one command of a box on a plain sshd: run COMMAND MARK [setsid]. What
# to run comes in two lines of shell text, from stdin or from a file, so that it
# stands in no argument list: settings (d directory, p PATH, o e m what becomes
# of the output, the arguments), then the exported variables. They are made by
# the engine, quoted; every name of this script's own begins with __hx_.
__hx_k=${0%/run} __hx_id=$1 __hx_mark=$2
if [ -n "$3" ]; then
	exec setsid /bin/sh "$0" "$1" "$2" ''
fi
__hx_n='
'
__hx_file=$__hx_k/h$1
if [ -f "$__hx_file" ]; then
	{ IFS= read -r __hx_one && IFS= read -r __hx_two; } <"$__hx_file" || exit 125
	rm -f "$__hx_file"
else
	IFS= read -r __hx_one && IFS= read -r __hx_two || exit 125
fi
__hx_say() { printf '\n%s\n%s\n' "$__hx_mark" "$*"; }
__hx_fail() {
	__hx_say "failed $*"
	exit 125
}
eval "$__hx_one"
unset __hx_one __hx_file

[ -e "$__hx_d" ] || __hx_fail dir-missing
[ -d "$__hx_d" ] || __hx_fail dir-not
cd "$__hx_d" 2>/dev/null || __hx_fail dir-denied
__hx_f= __hx_why=program-missing
case $1 in
'') ;;
/*) __hx_f=$1 ;;
*/*) __hx_f=./$1 ;;
*)
	set -f
	IFS=:
	for __hx_at in $__hx_p; do
		case $__hx_at in /*) ;; *) continue ;; esac
		[ -f "$__hx_at/$1" ] || continue
		if [ -x "$__hx_at/$1" ]; then
			__hx_f=$__hx_at/$1
			break
		fi
		__hx_why=program-denied
	done
	unset IFS
	set +f
	;;
esac
[ -n "$__hx_f" ] && [ -e "$__hx_f" ] || __hx_fail $__hx_why
[ ! -d "$__hx_f" ] && [ -x "$__hx_f" ] || __hx_fail program-denied
if [ -r "$__hx_f" ] && [ "$(command -p dd if="$__hx_f" bs=2 count=1 2>/dev/null)" = '#!' ]; then
	IFS= read -r __hx_i <"$__hx_f"
	__hx_i=${__hx_i#??}
	set -f
	for __hx_i in $__hx_i; do break; done
	set +f
	case $__hx_i in
	/*) [ -e "$__hx_i" ] || __hx_fail interpreter-missing ;;
	esac
fi
shift

unset PWD OLDPWD SHLVL
exec 3>&2 2>/dev/null
eval "$__hx_two"
exec 2>&3 3>&-
[ ! -e "$__hx_k/x$__hx_id" ] || exit 125
printf '\n%s\n' "$__hx_mark" >&2
__hx_say "started $$"
[ "$__hx_m" = 0 ] || exec 2>&1
[ "$__hx_o" = 1 ] || exec >/dev/null
[ "$__hx_e" = 1 ] || exec 2>/dev/null
exec "$__hx_f" "$@"
