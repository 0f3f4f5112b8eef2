package output

import "strings"

// vendor is a kind of token that begins with a prefix of its own.
type vendor struct {
	prefix  string
	class   func(byte) bool
	accepts func(body string) bool
}

func isWord(c byte) bool    { return word[c] }
func isDotted(c byte) bool  { return word[c] || c == '.' }
func isFernet(c byte) bool  { return word[c] || c == '=' }
func isUpperID(c byte) bool { return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
func isBlob(c byte) bool    { return isBase64(c) || word[c] || c == ',' }

func any10(b string) bool { return len(b) >= 10 }
func any20(b string) bool { return len(b) >= 20 }
func any30(b string) bool { return len(b) >= 30 }
func is16(b string) bool  { return len(b) == 16 }

// random tells a token from an identifier that happens to begin alike, such as
// sk-folding-cube, hf_hub_download, npm_config_prefix or pplx-70b-online.
func random(b string) bool {
	if len(b) < 10 {
		return false
	}
	digits, upper, snake, stretch, longest := 0, false, false, 0, 0
	for i := range len(b) {
		c := b[i]
		if c == '-' || c == '_' || c == '.' {
			stretch, snake = 0, snake || c == '_'
			continue
		}
		stretch++
		longest = max(longest, stretch)
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'A' && c <= 'Z':
			upper = true
		}
	}
	return longest >= 16 || (digits > 0 || upper) && longest >= 10 || !snake && digits >= 3 && len(b) >= 20 && longest >= 6
}

// long is for prefixes that very many identifiers share.
func long(b string) bool {
	for part := range strings.FieldsFuncSeq(b, func(c rune) bool { return c == '_' || c == '-' }) {
		if len(part) >= 20 {
			return true
		}
	}
	return false
}

// filler says that b stands for a token in a text about tokens.
func filler(b string) bool {
	for i := range len(b) {
		switch b[i] {
		case 'x', 'X', '0', '-', '_', '.':
		default:
			return false
		}
	}
	return true
}

// vendors, by the first byte of their prefix.
var vendors = [128][]vendor{
	'1': {{"1//0", isWord, any30}},
	'A': {
		{"AKIA", isUpperID, is16}, {"ASIA", isUpperID, is16}, {"ABIA", isUpperID, is16}, {"ACCA", isUpperID, is16},
		{"AIza", isWord, any30}, {"AGE-SECRET-KEY-1", isUpperID, any30}, {"ATATT3", isFernet, any30},
		{"ATCTT3", isFernet, any30},
	},
	'G': {{"GOCSPX-", isWord, any20}},
	'P': {{"PMAK-", isWord, any20}},
	'S': {{"SG.", isDotted, random}},
	'a': {{"am_", isWord, random}},
	'b': {{"bb_live_", isWord, any10}, {"brv_", isWord, random}},
	'd': {
		{"dop_v1_", isWord, any10}, {"doo_v1_", isWord, any10}, {"dor_v1_", isWord, any10},
		{"dckr_pat_", isWord, any10}, {"dp.pt.", isWord, any20}, {"dp.st.", isDotted, any20},
	},
	'e': {{"exa_", isWord, random}, {"e2b_", isWord, random}},
	'f': {
		{"fal_", isWord, random}, {"fc-", isWord, random}, {"figd_", isWord, random}, {"fm2_", isBlob, any30},
		{"fo1_", isWord, any30},
	},
	'g': {
		{"ghp_", isWord, any10}, {"github_pat_", isWord, any10}, {"gho_", isWord, any10}, {"ghu_", isWord, any10},
		{"ghs_", isWord, any10}, {"ghr_", isWord, any10}, {"gsk_", isWord, random}, {"gAAAA", isFernet, any20},
		{"glpat-", isDotted, any10}, {"gldt-", isWord, any10}, {"glrt-", isDotted, any10}, {"glcbt-", isWord, any10},
		{"glptt-", isWord, any10}, {"glsa_", isWord, any20}, {"glc_", isFernet, any30},
	},
	'h': {{"hf_", isWord, random}, {"hsk-", isWord, random}, {"hvs.", isWord, any20}, {"hvb.", isWord, any20}},
	'j': {{"jina_", isWord, random}},
	'l': {{"lin_api_", isWord, any10}, {"lsv2_", isWord, random}},
	'm': {{"mem0_", isWord, random}, {"m0-", isWord, random}},
	'n': {{"npm_", isWord, long}, {"ntn_", isWord, random}, {"nvapi-", isWord, any20}, {"napi_", isWord, long}},
	'o': {{"ops_eyJ", isFernet, any20}},
	'p': {{"pplx-", isWord, random}, {"pypi-", isWord, random}, {"pul-", isWord, any30}},
	'r': {
		{"r8_", isWord, random}, {"rk_live_", isWord, any10}, {"rk_test_", isWord, any10},
		{"retaindb_", isWord, random}, {"rubygems_", isWord, any20}, {"rpa_", isWord, long},
	},
	's': {
		{"sk-", isWord, random}, {"sk_live_", isWord, any10}, {"sk_test_", isWord, any10}, {"sk_", isWord, long},
		{"syt_", isWord, random}, {"shpat_", isWord, any10}, {"shpss_", isWord, any10}, {"shpca_", isWord, any10},
		{"sq0csp-", isWord, any10}, {"sq0atp-", isWord, any10}, {"sntrys_", isFernet, any20}, {"sbp_", isWord, long},
	},
	't': {{"tvly-", isWord, random}, {"tskey-", isWord, random}},
	'w': {{"whsec_", isFernet, any10}},
	'x': {
		{"xoxb-", isWord, any10}, {"xoxa-", isWord, any10}, {"xoxp-", isWord, any10}, {"xoxr-", isWord, any10},
		{"xoxs-", isWord, any10}, {"xoxe-", isWord, any10}, {"xoxe.", isDotted, any20}, {"xapp-", isWord, any10},
		{"xai-", isWord, any30},
	},
	'y': {{"ya29.", isWord, any20}},
}
