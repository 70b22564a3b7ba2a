package weburl

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/plain"
)

func TestURL(t *testing.T) {
	long := strings.Repeat("a.", 126) + "a"
	for raw, want := range map[string]string{
		"https://login.example/a?b=c#d":         "login.example https://login.example/a?b=c#d",
		"https://LOGIN.example:8443/":           "login.example:8443 https://login.example:8443/",
		"https://аpple.com/":                    "xn--pple-43d.com https://xn--pple-43d.com/", // a Cyrillic а
		"https://xn--pple-43d.com/":             "xn--pple-43d.com https://xn--pple-43d.com/",
		"https://bücher.example/é":              "xn--bcher-kva.example https://xn--bcher-kva.example/%C3%A9",
		"https://faß.example/":                  "xn--fa-hia.example https://xn--fa-hia.example/",
		"https://good.example。evil.example/":    "good.example.evil.example https://good.example.evil.example/",
		"https://ｅｖｉｌ.example/":                 "evil.example https://evil.example/",
		"https://%C3%A9vil.example/":            "xn--vil-9la.example https://xn--vil-9la.example/",
		"https://[::1]:8443/x":                  "[::1]:8443 https://[::1]:8443/x",
		"https://127.0.0.1/":                    "127.0.0.1 https://127.0.0.1/",
		"https://evil.example/@good.example":    "evil.example https://evil.example/@good.example",
		"https://evil.example?@good.example":    "evil.example https://evil.example?@good.example",
		"https://" + long + "/":                 long + " https://" + long + "/",
		"https://good.example@evil.example/":    "",
		"https://good.example:443@evil.example": "",
		`https://evil.example\@good.example/`:   "",
		"https://good.example%40evil.example/":  "",
		"https://good.example%2Fevil.example/":  "",
		"https:///x":                            "",
		"https:good.example":                    "",
		"https://" + long + ".a/":               "",
		"https://a\u200Bb.example/":             "ab.example https://ab.example/", // as browsers do
		"https://a\u202Eb.example/":             "",
		"https://good.example\x1b/":             "",
	} {
		shown, host, ok := Show(raw)
		if got := host + " " + shown; ok && got != want || !ok && want != "" {
			t.Errorf("%q: %v, %q, want %q", raw, ok, got, want)
		}
		if plain.Line(shown+host) != shown+host {
			t.Errorf("%q is shown as %q", raw, shown)
		}
	}
}
