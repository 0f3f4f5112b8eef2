// Package sshwire holds the names and messages with which sandbox/sshbox and a
// serving guest (guest/serve) talk over SSH, besides what RFC 4254 and OpenSSH
// define. Both are of one version: the engine brings its guest along.
//
// A connection starts with a version check: ClientVersion and ServerVersion
// name the protocol, and each side refuses another. Nobody authenticates: who
// holds the stream is the engine.
//
//   - ChannelBox: one box for as long as the channel is open. Its extra data is
//     a BoxRequest. The server makes the box and accepts, or rejects with a
//     Failure as message. Then both sides write Order and Answer, one JSON
//     object a line; the first line is the server's Answer to order 0, with Info.
//     End of file from the client ends the box at once; an answer still due to
//     OrderClose comes, and the server closes the channel.
//   - "session": one process or one sftp connection. First RequestBox with the
//     box's id, then pty-req if there shall be a terminal, then either
//     "subsystem" sftp or RequestExec with a Command. A refusal is preceded by
//     EventFailure. The server sends EventStarted, the output as data and
//     extended data, EventExited as soon as the main process has ended, after
//     the drained output exit-status or exit-signal, EventExit and end of file,
//     and closes; for a command with Keep only when nothing is left of it. The
//     client may send "signal", "window-change" and RequestEnd; closing the
//     channel is RequestEnd too.
//   - "forwarded-streamlocal@openssh.com": the server opens one for each
//     connection to a socket made by OrderListen; its SocketID tells which.
//
// Global "keepalive@openssh.com" is answered by both sides. When the connection
// ends, every box of it ends.
package sshwire
