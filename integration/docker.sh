#!/usr/bin/env bash
# A docker engine and images for the tests: installs and starts what is missing
# and prints, as environment lines, what there is. A daemon that runs already is
# used and never touched. "stop" ends the daemon that this script started, and
# nothing else; packages and images stay.
#
# The images are made of Debian's packages, without a registry:
#   hermes-exec-test:python   python3 and busybox
#   hermes-exec-test:sh       busybox alone: no bash, no python
#   hermes-exec-test:none     nothing at all
set -euo pipefail

dir=${TMPDIR:-/tmp}/hermes-exec-test-docker-$(id -u)
socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
images=(hermes-exec-test:python hermes-exec-test:sh hermes-exec-test:none)
links="sh ash ls cat cp mv rm ln mkdir rmdir chmod chown sleep env id tar head tail wc grep sed awk find sort
 touch test mkfifo true false echo printf ps kill stat dd od date uname hostname mount df du mktemp readlink realpath
 basename dirname tr cut seq sync tee xargs yes uniq stty nc ip ifconfig ping wget which whoami setsid timeout"
hash=$( (echo 2 "$links" "${images[@]}"; dpkg --print-architecture 2>/dev/null || true) | sha256sum | cut -c1-12)
label=org.hermes-exec.test

die() {
	echo "docker: $*" >&2
	exit 1
}

# started tells whether the daemon of our pid file still is the one we started.
started() {
	local pid at
	{ read -r pid at <"$dir/pid"; } 2>/dev/null || return 1
	[ "$(born "$pid")" = "$at" ]
}

born() { # when a process began, in ticks since the boot
	sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}

answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

stop() {
	started || return 0
	local pid at
	read -r pid at <"$dir/pid"
	kill -TERM "$pid" 2>/dev/null || true
	for _ in $(seq 150); do
		[ "$(born "$pid")" = "$at" ] || break
		sleep 0.1
	done
	[ "$(born "$pid")" != "$at" ] || kill -KILL "$pid" 2>/dev/null || true
	rm -f "$dir/pid"
}

install() {
	[ "$(id -u)" -eq 0 ] || die "no docker engine answers at $socket, and to install or start one takes root"
	local want=()
	command -v dockerd >/dev/null || want+=(docker.io)
	command -v docker >/dev/null || [ ${#want[@]} -gt 0 ] || want+=(docker-cli)
	[ ${#want[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || die "no docker engine is installed, and there is no apt to install one"
	echo "docker: installing ${want[*]}" >&2
	export DEBIAN_FRONTEND=noninteractive
	# Installing starts the service where there is an init that can.
	apt-get install -y -qq --no-install-recommends "${want[@]}" >/dev/null 2>&1 || {
		apt-get update -qq
		apt-get install -y -qq --no-install-recommends "${want[@]}" >/dev/null
	}
	command -v docker >/dev/null || apt-get install -y -qq --no-install-recommends docker-cli >/dev/null
}

start() {
	case $socket in unix:///var/run/docker.sock | unix:///run/docker.sock) ;; *) die "no docker engine answers at $socket (DOCKER_HOST)" ;; esac
	install
	for _ in $(seq 20); do # a service that has just been installed
		[ -S /var/run/docker.sock ] || break
		! answers || return 0
		sleep 0.1
	done
	[ "$(id -u)" -eq 0 ] || die "starting a docker engine takes root"
	# A number that a killed daemon left may be another process's by now.
	local old
	if { read -r old </var/run/docker.pid; } 2>/dev/null && [ "$(cat "/proc/$old/comm" 2>/dev/null)" != dockerd ]; then
		rm -f /var/run/docker.pid
	fi
	setsid dockerd >"$dir/log" 2>&1 </dev/null 9>&- &
	local pid=$!
	echo "$pid $(born "$pid")" >"$dir/pid"
	for _ in $(seq 300); do
		! answers || return 0
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	tail -5 "$dir/log" >&2
	stop
	die "the docker engine did not start; its log is $dir/log"
}

# rootfs writes the files of the image with python, taken from Debian's packages
# as apt resolves them for an empty system.
rootfs() {
	local tar=$1 work name
	command -v apt-get >/dev/null || die "to build the test image takes apt"
	work=$(mktemp -d "$dir/image.XXXXXX")
	mkdir -p "$work/debs/partial" "$work/root"
	: >"$work/status"
	fetch() {
		apt-get -o Dir::State::status="$work/status" -o APT::Install-Recommends=0 -o Dir::Cache::archives="$work/debs" \
			-o Debug::NoLocking=1 -o APT::Sandbox::User=root -y -qq --download-only install python3 busybox-static >/dev/null
	}
	fetch 2>/dev/null || { apt-get update -qq && fetch; }
	for deb in "$work"/debs/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/root" --keep-directory-symlink --no-same-owner
	done
	rm -rf "$work"/root/usr/share/{doc,man,locale,info,lintian,bug}
	furnish "$work/root"
	tar -C "$work/root" --owner=0 --group=0 --numeric-owner -cf "$tar.$$" .
	mv "$tar.$$" "$tar"
	rm -rf "$work"
}

# furnish puts into a root what every image of ours has.
furnish() {
	local root=$1 name
	(cd "$root" && mkdir -p bin tmp proc sys dev run etc root home work var/tmp && chmod 1777 tmp var/tmp && chmod 700 root)
	echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
	echo 'root:x:0:' >"$root/etc/group"
	for name in $links; do
		[ -e "$root/bin/$name" ] || [ -L "$root/bin/$name" ] || ln -s busybox "$root/bin/$name"
	done
	mkdir -p "$root/usr/bin"
	[ -e "$root/usr/bin/env" ] || ln -s ../../bin/busybox "$root/usr/bin/env"
}

# import makes an image of a tar read from stdin.
import() { # import NAME CMD
	docker import -c "LABEL $label=$hash" -c 'ENV PATH=/usr/local/bin:/usr/bin:/bin' -c 'ENV LANG=C.UTF-8' -c "CMD [\"$2\"]" - "$1" >/dev/null
}

build() {
	local tar=${TMPDIR:-/tmp}/hermes-exec-test-image-$hash.tar root
	[ -f "$tar" ] || rootfs "$tar"
	import hermes-exec-test:python python3 <"$tar"
	root=$(mktemp -d "$dir/image.XXXXXX")
	mkdir "$root/bin"
	tar -xf "$tar" -C "$root" --wildcards '*/bin/busybox'
	[ -e "$root/bin/busybox" ] || mv "$root/usr/bin/busybox" "$root/bin/busybox"
	rm -rf "$root/usr"
	furnish "$root"
	tar -C "$root" --owner=0 --group=0 --numeric-owner -c . | import hermes-exec-test:sh sh
	rm -rf "$root"
	tar -c -T /dev/null | import hermes-exec-test:none none
}

mkdir -p -m 700 "$dir"
[ -O "$dir" ] || die "$dir is somebody else's"
exec 9>"$dir/lock" # test packages run side by side
flock 9

case ${1:-} in
stop)
	stop
	exit 0
	;;
'') ;;
*) die "usage: $0 [stop]" ;;
esac

if ! command -v docker >/dev/null || ! answers; then
	start
fi
if [ "$(docker image inspect -f "{{index .Config.Labels \"$label\"}}" "${images[@]}" 2>/dev/null | sort -u)" != "$hash" ]; then
	build
fi
echo "HERMES_EXEC_TEST_DOCKER_HOST=$socket"
echo "HERMES_EXEC_TEST_DOCKER_IMAGE=hermes-exec-test:python"
echo "HERMES_EXEC_TEST_DOCKER_IMAGE_SH=hermes-exec-test:sh"
echo "HERMES_EXEC_TEST_DOCKER_IMAGE_NONE=hermes-exec-test:none"
