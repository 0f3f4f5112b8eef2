package docker

// Labels of everything that is made at the daemon.
const (
	labelOwner = "org.hermes-exec.owner" // whose state directory, on which machine
	labelLease = "org.hermes-exec.lease" // of which engine
	labelKind  = "org.hermes-exec.kind"  // box, probe, upload, guest
)

// labels are those of something that must not outlive a lease.
func (b *Backend) labels(l *lease, kind string) map[string]string {
	return map[string]string{labelOwner: l.owner, labelLease: l.id, labelKind: kind}
}

// leased returns this engine's lease, which is taken when it is needed first.
func (b *Backend) leased() (*lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lease == nil {
		l, err := takeLease(b.config.StateDir)
		if err != nil {
			return nil, err
		}
		b.lease = l
	}
	return b.lease, nil
}
