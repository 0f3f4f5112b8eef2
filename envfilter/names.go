package envfilter

import "strings"

// allowed is the allow-list: exact names, case counts.
var allowed = [...]struct{ reason, names string }{
	{"An ordinary variable of a session.", `
		PATH HOME USER LOGNAME SHELL TMPDIR TMP TEMP
		TERM TERMINFO TERMINFO_DIRS TERM_PROGRAM TERM_PROGRAM_VERSION COLORTERM NO_COLOR
		XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_BIN_HOME XDG_RUNTIME_DIR
		XDG_CONFIG_DIRS XDG_DATA_DIRS XDG_CURRENT_DESKTOP XDG_SEAT XDG_VTNR
		XDG_SESSION_TYPE XDG_SESSION_ID XDG_SESSION_CLASS XDG_SESSION_DESKTOP
		XDG_DESKTOP_DIR XDG_DOCUMENTS_DIR XDG_DOWNLOAD_DIR XDG_MUSIC_DIR XDG_PICTURES_DIR
		XDG_PUBLICSHARE_DIR XDG_TEMPLATES_DIR XDG_VIDEOS_DIR`},
	{"A setting of the language.", `
		LANG LANGUAGE LC_ALL LC_CTYPE LC_NUMERIC LC_TIME LC_COLLATE LC_MONETARY LC_MESSAGES LC_PAPER
		LC_NAME LC_ADDRESS LC_TELEPHONE LC_MEASUREMENT LC_IDENTIFICATION`},
	{"Says which Python environment is active.", `
		PYTHONPATH VIRTUAL_ENV VIRTUAL_ENV_PROMPT
		CONDA_PREFIX CONDA_PREFIX_1 CONDA_PREFIX_2 CONDA_PREFIX_3 CONDA_PREFIX_4 CONDA_DEFAULT_ENV
		CONDA_EXE CONDA_PYTHON_EXE CONDA_ROOT CONDA_SHLVL CONDA_PROMPT_MODIFIER CONDA_ENVS_PATH
		CONDA_PKGS_DIRS`},
	// Scripts of existing users read these to find things. HERMES_HOME says
	// where .env lies, but knowing the place opens nothing: reading there is
	// for the sandbox policy to forbid.
	{"Says where the agent keeps its things; the sandbox policy guards what is there.", `
		HERMES_HOME HERMES_PROFILE HERMES_CONFIG HERMES_ENV`},
	{"A proxy setting.", `
		HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY SOCKS_PROXY GRPC_PROXY NO_PROXY NO_GRPC_PROXY
		http_proxy https_proxy ftp_proxy all_proxy socks_proxy grpc_proxy no_proxy no_grpc_proxy`},
	{"Says where the certificates of authorities are.", `
		SSL_CERT_FILE SSL_CERT_DIR NIX_SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE AWS_CA_BUNDLE
		NODE_EXTRA_CA_CERTS PIP_CERT HTTPLIB2_CA_CERTS GRPC_DEFAULT_SSL_ROOTS_FILE_PATH DENO_CERT
		CARGO_HTTP_CAINFO NPM_CONFIG_CAFILE npm_config_cafile`},
}

// vector is a class of variables that make some program load or run code.
type vector struct {
	class string // what it changes
	soft  bool   // has an honest use: a passthrough opens it
	names string
}

// vectors are compared without case: on Windows, and to npm, case means
// nothing. Families that are vectors as a whole are in injects.
var vectors = [...]vector{
	{class: "what the C library loads or trusts", names: `
		GCONV_PATH GETCONF_DIR GLIBC_TUNABLES HOSTALIASES LOCPATH NLSPATH NIS_PATH MALLOC_TRACE
		RESOLV_HOST_CONF`},
	{class: "what a shell runs when it starts or prompts", names: `
		BASH_ENV ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS0 PS4 IFS CDPATH GLOBIGNORE EXECIGNORE
		BASH_XTRACEFD BASH_LOADABLES_PATH BASH_COMPAT FPATH ZDOTDIR INPUTRC FCEDIT`},
	{class: "what Python runs when it starts", names: `
		PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS PYTHONEXECUTABLE
		PYTHONPLATLIBDIR PYTHONCASEOK PYTHON_PRESITE PYTHON_HISTORY PYTHONSITEDIR __PYVENV_LAUNCHER__
		COVERAGE_PROCESS_START COVERAGE_PROCESS_CONFIG PYTEST_ADDOPTS PYTEST_PLUGINS`},
	{class: "what Node loads", names: `
		NODE_OPTIONS NODE_REPL_EXTERNAL_MODULE NODE_CHANNEL_FD ELECTRON_RUN_AS_NODE
		NPM_CONFIG_NODE_OPTIONS NPM_CONFIG_SCRIPT_SHELL NPM_CONFIG_SHELL NPM_CONFIG_GIT
		NPM_CONFIG_ONLOAD_SCRIPT NPM_CONFIG_INIT_MODULE NPM_CONFIG_USERCONFIG NPM_CONFIG_GLOBALCONFIG
		BUN_INSPECT_PRELOAD`},
	{class: "what Perl loads", names: `PERL5OPT PERL5LIB PERL5DB PERL5SHELL PERLLIB PERLIO_DEBUG PERL_UNICODE`},
	{class: "what Ruby loads", names: `RUBYOPT RUBYLIB RUBYSHELL RUBYLIB_PREFIX`},
	{class: "what PHP loads", names: `PHPRC PHP_INI_SCAN_DIR`},
	{class: "what Java loads", names: `JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTIONS`},
	{class: "what .NET loads", names: `
		DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS CORECLR_ENABLE_PROFILING CORECLR_PROFILER
		CORECLR_PROFILER_PATH CORECLR_PROFILER_PATH_32 CORECLR_PROFILER_PATH_64 COR_ENABLE_PROFILING
		COR_PROFILER COR_PROFILER_PATH`},
	{class: "what another interpreter runs when it starts", names: `
		R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER LUA_INIT ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS
		ELIXIR_ERL_OPTIONS EMACSLOADPATH TCLLIBPATH GNUPLOT_LIB VIMINIT EXINIT MYVIMRC`},
	{class: "what make reads", names: `MAKEFLAGS MAKEFILES GNUMAKEFLAGS MFLAGS`},
	{class: "which program another program starts", names: `
		SSH_ASKPASS SUDO_ASKPASS SVN_SSH CVS_RSH RSYNC_RSH RSYNC_CONNECT_PROG HGRCPATH
		LESSOPEN LESSCLOSE SUDO_EDITOR SYSTEMD_EDITOR SYSTEMD_PAGER`},
	{class: "what a network library loads or leaks", names: `SSLKEYLOGFILE OPENSSL_ENGINES OPENSSL_MODULES CURL_HOME WGETRC`},
	{class: "what a desktop library loads", names: `GTK_MODULES GTK3_MODULES GIO_EXTRA_MODULES GDK_PIXBUF_MODULE_FILE`},

	{class: "where libraries are loaded from", soft: true, names: `
		LD_LIBRARY_PATH DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH CAML_LD_LIBRARY_PATH OPENSSL_CONF
		QT_PLUGIN_PATH GST_PLUGIN_PATH`},
	{class: "where modules are loaded from", soft: true, names: `
		PYTHONUSERBASE PYTHONPYCACHEPREFIX NODE_PATH LUA_PATH LUA_CPATH JULIA_LOAD_PATH GUILE_LOAD_PATH
		GUILE_LOAD_COMPILED_PATH BUNDLE_GEMFILE`},
	{class: "which options or programs a build tool uses", soft: true, names: `
		MAVEN_OPTS GRADLE_OPTS JAVA_OPTS CATALINA_OPTS SBT_OPTS ANT_OPTS GOFLAGS RUSTC RUSTC_WRAPPER
		RUSTC_WORKSPACE_WRAPPER RUSTDOC`},
	{class: "who git says wrote a commit", soft: true, names: `
		GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
		GIT_COMMITTER_DATE`},
}

// injects names what a variable changes in the program that inherits it, ""
// if nothing; soft says that a passthrough opens it.
func (r *rules) injects(upper, value string) (class string, soft bool) {
	if v, ok := r.injection[upper]; ok {
		return v.class, v.soft
	}
	switch {
	case strings.HasPrefix(upper, "LD_") || strings.HasPrefix(upper, "DYLD_") || strings.HasPrefix(upper, "_RLD"):
		return "what the dynamic loader does", false
	case strings.HasPrefix(upper, "GIT_"):
		return "which programs, files and settings git uses", false
	case strings.HasPrefix(upper, "BASH_FUNC_") || strings.HasPrefix(strings.TrimLeft(value, " \t"), "() {"):
		return "which commands a shell knows, by an exported function", false
	case strings.HasPrefix(upper, "LUA_INIT_"):
		return "what another interpreter runs when it starts", false
	}
	return "", false
}
