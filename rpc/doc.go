// Package rpc is the wire between a script and the engine: the Server that the
// engine runs for the length of one run, and client.py, the script's side.
//
// The package judges frames and credentials only. Which tools a script may
// call, how often, and with which arguments is the Handler's business.
//
// # The wire
//
// A stream socket. Each side sends lines: one JSON text in UTF-8 followed by a
// newline, which occurs nowhere else. A line is at most Config.MaxFrame bytes,
// newline included.
//
// A client asks:
//
//	{"id":1,"token":"T","tool":"read_file","args":{"path":"a.txt"}}
//
//	id     integer from 0 to 2^53, chosen by the client to know the answer by
//	token  the run's secret, on every request
//	tool   string, at most 256 bytes
//	args   object; {} when absent
//
// These members in any order and no others, none twice. Whitespace around and
// between them is allowed, and lines of whitespace alone are passed over. Text
// is strict: valid UTF-8, no escape that is half of a surrogate pair, at most
// 500 containers deep. A last line without its newline is not a request.
//
// The server answers each request with one line of the same id:
//
//	{"id":1,"result":R}
//
// R is what the tool returned, any JSON, written compactly. A tool's failure is
// a result too: an object with the member "error". So are results that cannot
// be sent: {"error":"result of N bytes exceeds the frame limit of M bytes: …"}.
//
// Or, when the request did not reach a tool:
//
//	{"id":1,"error":{"code":"invalid","message":"…"}}
//
// id is null when the request had none that could be read. The codes:
//
//	invalid       not a request ("Invalid RPC request: …"). The connection stays
//	              usable, except that one which has not yet shown the token
//	              is closed at the eighth such line.
//	unauthorized  no token, a wrong one, or a peer of a foreign uid; closed.
//	too_large     the line is longer than the limit; closed.
//	busy          too many connections; closed.
//	closed        the run has ended; closed.
//
// Requests may be sent without waiting for answers. Calls of one connection run
// at the same time and are answered as they end, in any order; at most
// Config.MaxInFlight of them, further ones wait unread. Any number of
// connections up to Config.MaxConns may be open.
//
// A call goes to its tool when all answers that are not yet read fit in
// Config.MaxPending bytes, over all connections, with a frame for each bulky
// call that runs and for this one if it is bulky (see Config.Bulky). When the
// first has waited for a second, one goes all the same if its connection has
// nothing unread; the next one four times later for each such call not yet read.
//
// So a client may wait for one answer before it reads another; one that reads
// nothing costs MaxPending, a frame for each call that ran already and was not
// bulky, and 4 frames in five minutes. At most Config.MaxRunning calls are at
// their tools. A call that waits is not refused, and its connection is not read
// on until it has gone.
//
// A client that has shut down its sending side still gets the answers it is
// owed. One that closes the connection has its calls cancelled (on Linux at
// once, elsewhere when the answer cannot be written). Nothing but the engine's
// own clock limits how long a call, or the reading of an answer, may take: a
// run can be frozen for as long as a person needs to approve something.
//
// # Without a socket
//
// Where no socket joins script and engine, a directory does: a Dir, made for
// the run, 0700, and removed after it. The lines and their meaning are those
// above; each is a file, 0600, that appears under its name in one step, by
// rename. C is 16 digits of 0-9 and a-f that a client drew at random; N counts
// its calls from 1, without leading zeros, and is the id of the line.
//
//	req-C-N  a request; made by the client, removed by it when it has the
//	         answer, or when it gives up: that cancels the call
//	res-C-N  the answer; made by the engine, removed by the client
//	engine   a line that changes every 5 s while the engine lives:
//	         {"beat":7,"dead_after":30}; and the last, at the end:
//	         {"beat":8,"closed":"why"}
//	else     no concern of the engine: drafts, and what a script puts there
//
// Each name C-N is taken once, also if its request reappears. Ids may come a
// little out of order: one that is 256 or more behind the largest of its client
// counts as taken. What has been taken and is not a request (too long, not
// exactly one line, a link, a FIFO, another id than its name's) is answered by
// an error. One who asks more than Config.MaxRunning at a time waits, as a file.
//
// The engine looks after an eighth of the time for which nothing has come, at
// least 1 ms and at most 200 ms, and no more often than looking takes; a client
// does the same between 0.5 ms and 50 ms. A client that has not seen the line of
// engine change for dead_after seconds gives up (Disconnected), at once when
// closed or when the directory is gone. The engine gives up, and says why, when
// it cannot read or write the directory for as long, when it cannot write an
// answer, when there are more than 65536 files in it, and after 65536 clients.
//
// # The one call that is no tool
//
//	{"id":1,"token":"T","tool":"_sandbox","args":{}}
//
// It asks what the run may do. It needs no grant, costs nothing of the budget,
// is answered when nothing of it is left, and stands in no ledger. Its result:
//
//	mode         "project" or "strict"
//	policy       the policy's name
//	rung         by which level of mechanisms it is kept: "namespaces",
//	             "landlock"; "" when nothing confines
//	cwd          where the script was started
//	scratch      the run's own directory, removed after it
//	network      "off" or "host"
//	limits       {"timeout_seconds":N,"seconds_left":N,"max_tool_calls":N,
//	             "memory":bytes,"pids":N,"cpu":cores,"disk":bytes}; the last
//	             four are null when there is none of the run's own
//	calls_left   tool calls the script may still make
//	enforcement  {"files":{"state":"enforced","mechanism":"…"},…}; state is
//	             enforced, partial or unsupported
//	readable     trees that can be read, those of writable besides
//	writable     trees that can be written, scratch besides
//
// The trees are those of the policy; what it denies inside them is not listed.
//
// # The client
//
// ClientSource, or PollClientSource where there may be no socket, plus one
// generated function per tool is the module hermes_tools. It finds the server by
// environment variables, read at the first call:
//
//	HERMES_RPC_SOCKET  path of the socket
//	HERMES_RPC_DIR     path of the directory, when there is no socket
//	HERMES_RPC_TOKEN   the token
//
// A generated function is exactly this:
//
//	@_tool
//	def read_file(path: str, offset: int = 1, limit: int = 500):
//	    """Read a file."""
//	    return _call("read_file", {"path": path, "offset": offset, "limit": limit})
//
// That is, the decorator, a docstring, and one return of _call with every
// parameter in the payload. It uses no other global name: aio.read_file, the
// coroutine, is the same code with another _call. client.py has one function of
// this kind itself, sandbox. Its name, those that begin with an underscore and
// those in the __all__ of client.py are taken.
package rpc
