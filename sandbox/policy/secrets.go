package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Guard is a named group of places that every policy but open closes.
type Guard struct {
	Name   string   `json:"name"`
	Why    string   `json:"why"`
	Clause string   `json:"rule"`   // deny_read or deny_write
	Fixed  bool     `json:"fixed"`  // cannot be opened
	Places []string `json:"places"` // ~/… in each home, ./… in each writable tree, or absolute
}

// Guards lists all of them.
func Guards() []Guard {
	var all []Guard
	for line := range strings.Lines(hidden) {
		all = appendGuard(all, "deny_read", line)
	}
	for line := range strings.Lines(future) {
		all = appendGuard(all, "deny_write", line)
	}
	return all
}

// appendGuard reads one line: "name: why: places", "+ places" for more of them.
func appendGuard(all []Guard, clause, line string) []Guard {
	line = strings.TrimSpace(line)
	if line == "" {
		return all
	}
	if more, ok := strings.CutPrefix(line, "+ "); ok {
		all[len(all)-1].Places = append(all[len(all)-1].Places, places(more)...)
		return all
	}
	name, rest, _ := strings.Cut(line, ": ")
	why, list, _ := strings.Cut(rest, ":")
	name, fixed := strings.CutSuffix(name, "!")
	return append(all, Guard{name, why, clause, fixed, places(list)})
}

// places splits a list at blanks; %20 is a blank in a name.
func places(list string) (names []string) {
	for name := range strings.FieldsSeq(list) {
		names = append(names, strings.ReplaceAll(name, "%20", " "))
	}
	return names
}

// hidden are the secret places. What is marked ! cannot be opened.
const hidden = `
ssh: private keys and the hosts they open: ~/.ssh ~/.putty
gnupg: private keys: ~/.gnupg
aws: cloud credentials: ~/.aws ~/.boto ~/.s3cfg
azure: cloud credentials: ~/.azure
gcloud: cloud credentials: ~/.config/gcloud
clouds: credentials of hosting services: ~/.oci ~/.aliyun ~/.bluemix ~/.config/doctl ~/.config/hcloud ~/.config/scw
+ ~/.config/linode-cli ~/.config/openstack ~/.fly ~/.config/heroku ~/.config/netlify ~/.netlify ~/.local/share/com.vercel.cli
+ ~/.vercel ~/.wrangler ~/.config/.wrangler ~/.cloudflared ~/.config/ngrok ~/.ngrok2 ~/.config/stripe ~/.databrickscfg
+ ~/.snowflake ~/.config/snowflake ~/.dbt ~/.railway ~/.supabase ~/.config/firebase ~/.config/configstore
kube: cluster credentials: ~/.kube ~/.config/helm ~/.minikube ~/.talos ~/.config/k9s /etc/kubernetes /etc/rancher
+ /var/lib/kubelet /var/lib/rancher
docker: registry credentials: ~/.docker ~/.config/containers ~/.dockercfg
gh: code hosting credentials: ~/.config/gh ~/.config/hub ~/.config/glab-cli ~/.config/tea ~/.config/github-copilot
git_credentials: passwords of remotes: ~/.git-credentials ~/.config/git/credentials ~/.git-credential-cache ~/.cache/git/credential
netrc: passwords of hosts: ~/.netrc ~/.authinfo ~/.authinfo.gpg ~/_netrc
npm: registry tokens: ~/.npmrc ~/.yarnrc ~/.yarnrc.yml ~/.config/yarn
pypi: registry tokens: ~/.pypirc ~/.config/pypoetry/auth.toml ~/.config/uv/credentials ~/.local/share/uv/credentials
registries: tokens of package registries: ~/.cargo/credentials ~/.cargo/credentials.toml ~/.gem/credentials
+ ~/.local/share/gem/credentials ~/.bundle/config ~/.m2/settings.xml ~/.m2/settings-security.xml
+ ~/.gradle/gradle.properties ~/.composer/auth.json ~/.config/composer/auth.json ~/.nuget/NuGet
terraform: tokens and state: ~/.terraform.d ~/.terraformrc ~/.config/terraform
vault: tokens: ~/.vault-token ~/.config/sops ~/.config/age ~/.age
rclone: credentials of remote storage: ~/.config/rclone ~/.rclone.conf ~/.config/filezilla ~/.config/remmina
+ ~/.local/share/remmina ~/.davfs2 ~/.smbcredentials
databases: passwords of databases: ~/.pgpass ~/.my.cnf ~/.mylogin.cnf ~/.config/pgcli ~/.redisclirc ~/.config/mongodb
agents: keys and sessions of AI services: ~/.claude/.credentials.json ~/.claude.json ~/.codex/auth.json ~/.gemini
+ ~/.config/anthropic ~/.config/openai ~/.openai ~/.config/goose ~/.local/share/opencode/auth.json
+ ~/.huggingface ~/.cache/huggingface/token ~/.cache/huggingface/stored_tokens ~/.kaggle ~/.config/kaggle
editors_state: tokens that editors keep: ~/.config/Code/User/globalStorage ~/.config/Cursor/User/globalStorage
+ ~/.config/VSCodium/User/globalStorage ~/.config/JetBrains ~/.config/zed/credentials
browsers: cookies, passwords, history: ~/.mozilla ~/.config/mozilla ~/.librewolf ~/.waterfox ~/.tor-browser
+ ~/.config/google-chrome ~/.config/google-chrome-beta ~/.config/google-chrome-unstable ~/.config/chromium
+ ~/.config/BraveSoftware ~/.config/microsoft-edge ~/.config/microsoft-edge-beta ~/.config/microsoft-edge-dev
+ ~/.config/vivaldi ~/.config/opera ~/.config/qutebrowser ~/.local/share/qutebrowser ~/.config/epiphany
+ ~/.local/share/epiphany ~/.cache/mozilla ~/.cache/google-chrome ~/.cache/chromium ~/.cache/BraveSoftware
+ ~/.cache/microsoft-edge ~/snap/firefox ~/snap/chromium ~/snap/brave ~/.var/app/org.mozilla.firefox
+ ~/.var/app/com.google.Chrome ~/.var/app/org.chromium.Chromium ~/.var/app/com.brave.Browser
+ ~/.var/app/com.microsoft.Edge ~/.var/app/io.gitlab.librewolf-community
passwords: password managers and key rings: ~/.config/1Password ~/.1password ~/.op ~/.config/op ~/.config/keepassxc
+ ~/.cache/keepassxc ~/.keepassxc ~/.config/KeePass ~/.config/Bitwarden ~/.config/Bitwarden%20CLI ~/snap/bitwarden
+ ~/.var/app/com.bitwarden.desktop ~/.var/app/org.keepassxc.KeePassXC ~/.config/rbw ~/.local/share/rbw ~/.cache/rbw
+ ~/.local/share/keyrings ~/.gnome2/keyrings ~/.local/share/kwalletd ~/.kde/share/apps/kwallet ~/.password-store
+ ~/.local/share/password-store ~/.local/share/gopass ~/.config/gopass ~/.lastpass ~/.config/lpass ~/.local/share/lpass
+ ~/.config/Enpass ~/.config/Proton%20Pass ~/.config/Dashlane ~/.config/Yubico ~/.local/share/pki ~/.pki
wallets: keys to money: ~/.bitcoin ~/.electrum ~/.ethereum ~/.config/solana ~/.config/Exodus ~/.monero ~/.litecoin
messages: mail and chat: ~/.thunderbird ~/.var/app/org.mozilla.Thunderbird ~/.local/share/evolution ~/.mutt ~/.config/mutt
+ ~/.config/Signal ~/.config/Slack ~/.config/discord ~/.config/Element ~/.local/share/TelegramDesktop ~/.config/teams
+ ~/.config/Microsoft ~/.config/weechat ~/.irssi ~/Maildir ~/.mail
histories: what was typed, passwords too: ~/.bash_history ~/.zsh_history ~/.zhistory ~/.histfile ~/.sh_history
+ ~/.ksh_history ~/.history ~/.local/share/fish/fish_history ~/.local/share/atuin ~/.local/share/zsh ~/.zsh_sessions
+ ~/.bash_sessions ~/.python_history ~/.ipython/profile_default/history.sqlite ~/.node_repl_history ~/.irb_history
+ ~/.psql_history ~/.mysql_history ~/.mariadb_history ~/.sqlite_history ~/.rediscli_history ~/.mongosh ~/.dbshell
+ ~/.mongorc.js ~/.duckdb_history ~/.lesshst ~/.viminfo ~/.local/state/nvim ~/.local/share/nvim/shada ~/.wget-hsts
+ ~/.local/state/bash ~/.local/state/zsh ~/.local/share/recently-used.xbel
sockets: services that act with more rights: /run/docker.sock /run/docker /run/containerd /run/podman /run/crio
+ /run/buildkit /run/k3s /run/libvirt /run/snapd.socket /run/lxd.socket /var/lib/lxd /var/snap/lxd /run/dbus /run/systemd/private
system: passwords and keys of the machine: /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers
+ /etc/sudoers.d /etc/security/opasswd /etc/ssl/private /etc/pki/tls/private /etc/pki/entitlement /etc/pki/consumer
+ /etc/krb5.keytab /etc/docker /etc/wireguard /etc/openvpn /etc/ipsec.secrets /etc/ppp /etc/NetworkManager/system-connections
+ /etc/wpa_supplicant /etc/letsencrypt /etc/ssh/ssh_host_rsa_key /etc/ssh/ssh_host_ecdsa_key /etc/ssh/ssh_host_ed25519_key
+ /etc/ssh/ssh_host_dsa_key /run/secrets /var/run/secrets /var/lib/sss /var/lib/NetworkManager /var/spool/cron /var/spool/mail
+ /var/mail /boot
hermes: memories, sessions and skills of the agent: 
engine_keys!: keys of the engine and of its providers: 
`

// engineKeys are the names in $HERMES_HOME that no policy opens.
const engineKeys = `.env config.yaml auth.json auth.lock credentials .op.env google_token.json google_client_secret.json
 mcp-tokens pairing`

func guardNames() (names []string) {
	for _, g := range Guards() {
		if !g.Fixed {
			names = append(names, g.Name)
		}
	}
	return names
}

func fixedGuard(name string) bool {
	return slices.ContainsFunc(Guards(), func(g Guard) bool { return g.Name == name && g.Fixed })
}

// hideSecrets denies every secret place whose guard is not open.
func (b *builder) hideSecrets() {
	for _, g := range b.table {
		if g.Clause != "deny_read" || b.open[g.Name] {
			continue
		}
		for _, place := range g.Places {
			below, inHome := strings.CutPrefix(place, "~/")
			if !inHome {
				b.denyRead(g.Name, place)
				continue
			}
			for _, home := range b.homes {
				b.denyRead(g.Name, filepath.Join(home, below))
				b.hideLinked(g.Name, filepath.Join(home, below))
			}
		}
	}
	if !b.open["sockets"] {
		for _, place := range b.sockets() {
			b.denyRead("sockets", place)
		}
	}
	b.hideHermes()
}

// hideLinked denies what the links in a secret directory lead to: many keep
// such files in a repository of dotfiles.
func (b *builder) hideLinked(guard, dir string) {
	if !b.links.exists(dir) || strings.Contains(" browsers editors_state messages ", " "+guard+" ") {
		return
	}
	left := 2000 // entries of it, and of the directories in it
	b.hideLinkedBelow(guard, dir, 0, &left)
	if left < 0 {
		b.note("%s has too much in it to look for links: what some lead to may be read", dir)
	}
}

func (b *builder) hideLinkedBelow(guard, dir string, depth int, left *int) {
	f, err := openDir(b.links.real(dir))
	if err != nil {
		return
	}
	defer f.Close()
	entries, _ := f.ReadDir(*left + 1)
	*left -= len(entries)
	for _, e := range entries {
		if e.IsDir() && depth < 8 && *left > 0 {
			b.hideLinkedBelow(guard, filepath.Join(dir, e.Name()), depth+1, left)
		}
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		target := b.links.real(filepath.Join(dir, e.Name()))
		info, err := os.Stat(target)
		if err != nil || !info.Mode().IsRegular() || systemTree(target) || sandbox.Covers(b.links.real(dir), target) {
			continue
		}
		b.denyRead(guard, filepath.Join(dir, e.Name()))
	}
}

// sockets are those that the environment names.
func (b *builder) sockets() (places []string) {
	for _, name := range []string{"DOCKER_HOST", "CONTAINER_HOST", "BUILDKIT_HOST", "SSH_AUTH_SOCK", "SSH_AGENT_SOCK", "DBUS_SESSION_BUS_ADDRESS"} {
		value := getenv(b.c.Environ, name)
		for _, scheme := range []string{"unix://", "unix:path=", "unix:"} {
			if rest, ok := strings.CutPrefix(value, scheme); ok {
				value, _, _ = strings.Cut(rest, ",")
				break
			}
		}
		if filepath.IsAbs(value) && filepath.Clean(value) != "/" {
			places = append(places, value)
		}
	}
	if dir := getenv(b.c.Environ, "XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && filepath.Clean(dir) != "/" {
		for _, name := range strings.Fields("bus docker.sock podman containerd gnupg keyring ssh-agent.socket systemd/private") {
			places = append(places, filepath.Join(dir, name))
		}
	}
	return places
}

// hideHermes closes $HERMES_HOME. When what a run needs is in it (an
// interpreter, the work dir, a profile's home) all that exists beside the way
// there is closed by name instead.
func (b *builder) hideHermes() {
	if b.c.HermesHome == "" {
		return
	}
	dir := b.links.real(b.c.HermesHome)
	if !b.open["hermes"] {
		b.hideBeside("hermes", dir)
	}
	for name := range strings.FieldsSeq(engineKeys) {
		b.denyRead("engine_keys", filepath.Join(dir, name))
	}
}

func (b *builder) hideBeside(guard, dir string) {
	needed := false
	for _, need := range b.needs {
		if need == dir {
			return
		}
		needed = needed || sandbox.Covers(dir, need)
	}
	if !needed {
		b.denyRead(guard, dir)
		return
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		b.hideBeside(guard, filepath.Join(dir, e.Name()))
	}
}
