package registry

import "context"

// The argument structs below mirror those of registry/tools, so that schema
// and stub are tested here without importing a higher floor.

type readFileIn struct {
	Path   string `json:"path"`
	Offset int    `json:"offset" default:"1" min:"1"`
	Limit  int    `json:"limit" default:"500" max:"2000"`
}

type writeFileIn struct {
	Path         string `json:"path"`
	Content      string `json:"content"`
	CrossProfile bool   `json:"cross_profile" default:"false"`
}

type searchFilesIn struct {
	Pattern    string  `json:"pattern"`
	Target     string  `json:"target" enum:"content,files" default:"content"`
	Path       string  `json:"path" default:"."`
	FileGlob   *string `json:"file_glob"`
	Limit      int     `json:"limit" default:"50"`
	Offset     int     `json:"offset" default:"0"`
	OutputMode string  `json:"output_mode" enum:"content,files_only,count" default:"content"`
	Context    int     `json:"context" default:"0"`
}

type patchIn struct {
	Mode         string  `json:"mode" enum:"replace,patch" default:"replace" required:"schema" pyafter:"replace_all"`
	Path         *string `json:"path"`
	OldString    *string `json:"old_string"`
	NewString    *string `json:"new_string"`
	ReplaceAll   bool    `json:"replace_all" default:"false"`
	Patch        *string `json:"patch"`
	CrossProfile bool    `json:"cross_profile" default:"false"`
}

type terminalIn struct {
	Command          any      `json:"command" type:"string" required:"schema"`
	Background       bool     `json:"background" default:"false" script:"-"`
	Timeout          *int     `json:"timeout" min:"1"`
	Workdir          *string  `json:"workdir"`
	PTY              bool     `json:"pty" default:"false" script:"-"`
	NotifyOnComplete bool     `json:"notify_on_complete" default:"false" script:"-"`
	WatchPatterns    []string `json:"watch_patterns" script:"-"`
}

type webSearchIn struct {
	Query string `json:"query"`
	Limit int    `json:"limit" default:"5" min:"1" max:"100"`
}

type webExtractIn struct {
	URLs []string `json:"urls" maxitems:"5" required:"true"`
}

// echo returns its arguments, so that a test sees what a tool would get.
func echo[In any](name, doc string) Tool {
	return New(name, "test", doc, func(_ context.Context, _ Caller, in In) (In, error) { return in, nil })
}

func theSeven() []Tool {
	return []Tool{
		echo[terminalIn]("terminal", "Run a shell command.\n\nMore for the model."),
		echo[readFileIn]("read_file", `Read a file. The dict has "content" and "total_lines".`),
		echo[writeFileIn]("write_file", "Write a file."),
		echo[searchFilesIn]("search_files", `Search contents or names. The dict has "matches"`),
		echo[patchIn]("patch", "Change files."),
		echo[webSearchIn]("web_search", "Search the web."),
		echo[webExtractIn]("web_extract", "Extract pages."),
	}
}
