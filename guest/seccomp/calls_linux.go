package seccomp

import "slices"

// call is one system call and its number in each table.
type call struct {
	name         string
	amd64, arm64 int32
}

// none says that a table does not have the call.
const none = -1

// newest is the highest number that was reviewed for this filter, the same in
// both tables. What comes after it answers ENOSYS.
const newest = 471

// denied answer EPERM whatever their arguments are.
var denied = [...]call{
	// Mounts and roots.
	{"mount", 165, 40},
	{"umount2", 166, 39},
	{"pivot_root", 155, 41},
	{"chroot", 161, 51},
	{"open_tree", 428, 428},
	{"open_tree_attr", 467, 467},
	{"move_mount", 429, 429},
	{"fsopen", 430, 430},
	{"fsconfig", 431, 431},
	{"fsmount", 432, 432},
	{"fspick", 433, 433},
	{"mount_setattr", 442, 442},
	// Namespaces.
	{"setns", 308, 268},
	{"unshare", 272, 97},
	{"listns", 470, 470},
	// Other processes' memory, descriptors and pages.
	{"ptrace", 101, 117},
	{"process_vm_readv", 310, 270},
	{"process_vm_writev", 311, 271},
	{"pidfd_getfd", 438, 438},
	{"kcmp", 312, 272},
	{"migrate_pages", 256, 238},
	{"move_pages", 279, 239},
	{"set_mempolicy_home_node", 450, 450},
	// Kernel interfaces of their own size.
	{"bpf", 321, 280},
	{"perf_event_open", 298, 241},
	{"userfaultfd", 323, 282},
	{"io_uring_setup", 425, 425},
	{"io_uring_enter", 426, 426},
	{"io_uring_register", 427, 427},
	{"add_key", 248, 217},
	{"request_key", 249, 218},
	{"keyctl", 250, 219},
	{"fanotify_init", 300, 262},
	{"fanotify_mark", 301, 263},
	// Files found by another way than their name. name_to_handle_at stays: a
	// handle is of no use to who cannot open it.
	{"open_by_handle_at", 304, 265},
	{"lookup_dcookie", 212, 18},
	// The machine: modules, kernels, swap, clock, names, logs, terminals.
	{"init_module", 175, 105},
	{"finit_module", 313, 273},
	{"delete_module", 176, 106},
	{"create_module", 174, none},
	{"query_module", 178, none},
	{"get_kernel_syms", 177, none},
	{"kexec_load", 246, 104},
	{"kexec_file_load", 320, 294},
	{"swapon", 167, 224},
	{"swapoff", 168, 225},
	{"reboot", 169, 142},
	{"sethostname", 170, 161},
	{"setdomainname", 171, 162},
	{"settimeofday", 164, 170},
	{"clock_settime", 227, 112},
	{"clock_adjtime", 305, 266},
	{"adjtimex", 159, 171},
	{"acct", 163, 89},
	{"quotactl", 179, 60},
	{"quotactl_fd", 443, 443},
	{"nfsservctl", 180, 42},
	{"syslog", 103, 116},
	{"vhangup", 153, 58},
	{"iopl", 172, none},
	{"ioperm", 173, none},
	{"modify_ldt", 154, none},
	{"uselib", 134, none},
	{"_sysctl", 156, none},
}

// examined are allowed or not by what their arguments are, clone3 by never
// being there.
var examined = [...]struct {
	call
	verdict verdict
	denied  string // what of it is denied, for Denied
}{
	{call{"clone", 56, 220}, examineClone, "clone with CLONE_NEW* flags"},
	{call{"clone3", 435, 435}, absent, "clone3 (ENOSYS)"},
	{call{"socket", 41, 198}, examineSocket, "socket but stream and datagram of AF_UNIX, AF_INET, AF_INET6"},
	{call{"socketpair", 53, 199}, examineSocket, "socketpair but stream and datagram of AF_UNIX, AF_INET, AF_INET6"},
	{call{"ioctl", 16, 29}, examineIoctl, "ioctl TIOCSTI, TIOCLINUX, TIOCSETD"},
	{call{"fcntl", 72, 25}, examineFcntl, "fcntl F_SETLEASE, F_NOTIFY, F_SETDELEG"},
	{call{"personality", 135, 92}, examinePersonality, "personality but PER_LINUX and ADDR_NO_RANDOMIZE"},
	{call{"chmod", 90, none}, examineMode, "chmod with set-id bits"},
	{call{"fchmod", 91, 52}, examineMode, "fchmod with set-id bits"},
	{call{"creat", 85, none}, examineMode, "creat with set-id bits"},
	{call{"mknod", 133, none}, examineMode, "mknod with set-id bits"},
	{call{"fchmodat", 268, 53}, examineModeAt, "fchmodat with set-id bits"},
	{call{"fchmodat2", 452, 452}, examineModeAt, "fchmodat2 with set-id bits"},
	{call{"mknodat", 259, 33}, examineModeAt, "mknodat with set-id bits"},
	{call{"open", 2, none}, examineOpen, "open of a new file with set-id bits"},
	{call{"openat", 257, 56}, examineOpenAt, "openat of a new file with set-id bits"},
	{call{"openat2", 437, 437}, examineOpenat2, "openat2 (ENOSYS)"},
}

// shared are refused, all or in part, where the machine's processes and its
// System V objects are in reach. The objects are used by number: it is not
// enough to refuse the calls that find them by key.
var shared = [...]struct {
	call
	verdict verdict
}{
	{call{"prlimit64", 302, 261}, examinePrlimit},
	{call{"shmget", 29, 194}, refuse},
	{call{"shmat", 30, 196}, refuse},
	{call{"shmctl", 31, 195}, refuse},
	{call{"semget", 64, 190}, refuse},
	{call{"semop", 65, 193}, refuse},
	{call{"semctl", 66, 191}, refuse},
	{call{"semtimedop", 220, 192}, refuse},
	{call{"msgget", 68, 186}, refuse},
	{call{"msgsnd", 69, 189}, refuse},
	{call{"msgrcv", 70, 188}, refuse},
	{call{"msgctl", 71, 187}, refuse},
	{call{"mq_open", 240, 180}, refuse},
	{call{"mq_unlink", 241, 181}, refuse},
}

// Denied lists, sorted, what a filtered command cannot do, for people to read:
// names of calls, with what of them is denied where that is not all.
func Denied() []string {
	var list []string
	for _, c := range denied {
		list = append(list, c.name)
	}
	for _, c := range examined {
		list = append(list, c.denied)
	}
	slices.Sort(list)
	return list
}
