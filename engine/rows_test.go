package engine

import (
	"strings"
	"testing"
)

// row is one row of the reference's behaviour table, sections 1.1 to 1.10:
// what users of the reference rely on, each shown by something that runs. The
// cases stand in one file a section or two, rows_*_test.go.
type row struct {
	id     string // as in rowIDs
	beaten string // what is different here on purpose; "" where the row is matched
	test   func(t *testing.T)
}

func TestReferenceRows(t *testing.T) {
	wanted := map[string]bool{}
	for id := range strings.Lines(strings.TrimSpace(rowIDs)) {
		wanted[strings.TrimSpace(id)] = false
	}
	for _, section := range []struct {
		rows       []row
		concurrent bool // worth the race detector's time, which -short is for
	}{
		{constantRows(), true}, {toolRows(), false}, {resultRows(), false}, {stringRows(), false}, {stagingRows(), false},
		{environRows(), false}, {processRows(), true}, {outputRows(), false}, {stubRows(), false}, {answerRows(), false}, {wireRows(), true},
	} {
		for _, r := range section.rows {
			done, known := wanted[r.id]
			if !known || done {
				t.Errorf("row %q: known %v, has another case %v", r.id, known, done)
			}
			wanted[r.id] = true
			t.Run(r.id, func(t *testing.T) {
				if testing.Short() && !section.concurrent {
					t.Skip("-short: nothing here is concurrent")
				}
				r.test(t)
			})
		}
	}
	for id, done := range wanted {
		if !done {
			t.Errorf("row %q has no case", id)
		}
	}
}

// rowIDs names every row: section, number in it, subject.
const rowIDs = `
1.1/1 script timeout
1.1/2 max tool calls
1.1/3 stdout cap
1.1/4 stdout split
1.1/5 stderr cap
1.1/6 pipe reads
1.1/7 exit poll interval
1.1/8 kill grace
1.1/9 reader join after exit
1.1/10 RPC accept poll
1.1/11 RPC socket timeouts
1.1/12 RPC recv chunk, backlog, connections
1.1/13 remote request poll
1.1/14 remote response poll
1.1/15 remote exec timeouts
1.1/16 interpreter probe
1.1/17 args preview and duration
1.1/18 heartbeat
1.1/19 result cap
1.2/1 the seven tools
1.2/2 stubs are allowed and in the session
1.2/3 tools a script never gets
1.2/4 the server checks the grant again
1.3/1 keys, their order, text as it is
1.3/2 exit 0
1.3/3 exit code and stderr
1.3/4 exit code without stderr
1.3/5 timeout
1.3/6 interrupted
1.3/7 no code
1.3/8 unavailable
1.3/9 guard denied
1.3/10 internal error
1.3/11 code that is no string
1.3/12 remote without Python
1.3/13 remote exit code
1.3/14 remote exit 124 and 130
1.3/15 remote timeout
1.3/16 duration
1.4/1 truncation notice
1.4/2 disallowed tool
1.4/3 call limit
1.4/4 bad JSON line
1.4/5 handler error
1.4/6 lost server
1.4/7 what the documentation promised
1.5/1 staging directory
1.5/2 socket
1.5/3 argv
1.5/4 stdio
1.5/5 mode
1.5/6 strict
1.5/7 project working directory
1.5/8 project Python
1.5/9 working directory of tools
1.6/1 passthrough first
1.6/2 secret words drop
1.6/3 safe names pass
1.6/4 HERMES names pass
1.6/5 Windows names
1.6/6 the rest is dropped
1.6/7 list of secret words
1.6/8 list of safe prefixes
1.6/9 list of HERMES names
1.6/10 list of Windows essentials
1.6/11 what is injected
1.6/12 HOME contract
1.6/13 what scripts miss
1.6/14 same in both modes, none remotely
1.7/1 session and group
1.7/2 the wait: interrupt, deadline, heartbeat
1.7/3 kill
1.7/4 after the exit
1.8/1 order of the steps
1.8/2 ANSI
1.8/3 redaction switch
1.8/4 vendor prefixes
1.8/5 assignments
1.8/6 JSON fields
1.8/7 authorization
1.8/8 telegram
1.8/9 private keys
1.8/10 connection strings
1.8/11 web tokens
1.8/12 forms
1.8/13 telephone numbers
1.8/14 mask
1.8/15 addresses of web pages
1.9/1 imports
1.9/2 functions sorted, payloads whole
1.9/3 web_search
1.9/4 web_extract
1.9/5 read_file
1.9/6 write_file
1.9/7 search_files
1.9/8 patch
1.9/9 terminal
1.9/10 json_parse and shell_quote
1.9/11 retry
1.9/12 _call and its lock
1.9/13 return value
1.9/14 answer of terminal
1.9/15 answer of read_file
1.9/16 answer of search_files
1.9/17 answer of write_file
1.9/18 answer of patch
1.9/19 foreground limits of terminal
1.10/1 framing
1.10/2 requests and replies
1.10/3 blank lines and pipelining
1.10/4 order of the checks
1.10/5 arguments a script cannot give
1.10/6 standard output of handlers
1.10/7 count and log
1.10/8 throughput
1.10/9 threads, forks, second connections
`
