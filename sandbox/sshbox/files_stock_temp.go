package sshbox

import "context"

// removeLater removes a temporary file that nobody waits for.
func (f stockFiles) removeLater(temp string) {
	ctx, stop := context.WithTimeout(context.Background(), closePatience)
	defer stop()
	if gone(f.status(ctx, unlinkPacket(temp, false))) == nil {
		f.files.dropTemp(temp)
	}
}

// noteTemp remembers a temporary file, so that it is removed even when its
// connection is lost.
func (r *remoteFiles) noteTemp(name string, k *sftpConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.temps[name] = k
}

func (r *remoteFiles) dropTemp(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.temps, name)
}

func (r *remoteFiles) isTemp(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.temps[name] != nil
}

// sweep removes by way of k the temporary files of connections that were lost,
// or all.
func (r *remoteFiles) sweep(ctx context.Context, k *sftpConn, all bool) {
	r.mu.Lock()
	var names []string
	for name, of := range r.temps {
		if all || of != k && of.failure() != nil {
			names = append(names, name)
		}
	}
	r.mu.Unlock()
	for _, name := range names {
		if gone(k.status(ctx, unlinkPacket(name, false))) == nil {
			r.dropTemp(name)
		}
	}
}
