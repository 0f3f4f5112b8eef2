// Package ssh makes boxes on another host over SSH.
//
// Who the host is, is looked up as ssh does: in the Config, then ~/.ssh/config
// (HostName, User, Port, IdentityFile, IdentitiesOnly, IdentityAgent, ProxyJump,
// UserKnownHostsFile, HostKeyAlias, Include), then the system's. A host must be
// in known_hosts; one that is not is refused, with what to do, unless
// Config.AcceptNew. One whose key has changed is refused always.
//
// One connection is shared by all boxes. When it is lost, with all that ran on
// it (sandbox.ErrLost), the next Create makes another: nothing that may have
// begun is run again.
//
// There are two rungs. On a Linux host of a known architecture the guest
// program is uploaded once, to ~/.cache/hermes-exec/guests under its hash, and
// every policy is kept there as it would be here. Else the host's sshd must do:
// see sshbox.Link.Plain; it keeps policy open alone. Info.Guest tells the two
// apart, and a finding of Check says why it is the second.
package ssh
