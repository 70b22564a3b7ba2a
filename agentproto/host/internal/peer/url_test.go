package peer

import (
	"testing"
)

func TestOriginOf(t *testing.T) {
	for in, want := range map[string]string{
		"http://Tool.test/a":      "http://tool.test:80",
		"https://tool.test":       "https://tool.test:443",
		"https://[::1]:8080/x?y":  "https://[::1]:8080",
		"http://tool.test:80":     "http://tool.test:80",
		"http://tool.test@evil":   "",
		"ftp://tool.test":         "",
		"//tool.test":             "",
		"http:tool.test":          "",
		"http://tool.test:0x50/":  "",
		"http://tool.test\x7f/":   "",
		"javascript://x.test/%0a": "",
	} {
		if got, _ := Origin(in); got != want {
			t.Errorf("originOf(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"http://localhost:8801/a": "http://localhost:8801", "http://127.0.0.1:8801": "http://localhost:8801", "http://[::1]:8801": "http://localhost:8801",
		"http://LocalHost:8801": "http://localhost:8801", "http://127.0.0.1:8802": "http://localhost:8802", "https://127.0.0.1:8801": "https://localhost:8801",
		"http://127.0.0.2:8801": "http://127.0.0.2:8801", "http://127.0.0.1.evil.test:8801": "http://127.0.0.1.evil.test:8801", "ftp://127.0.0.1": "",
	} {
		if got, _ := ServerOrigin(in); got != want {
			t.Errorf("originOfServer(%q) = %q, want %q", in, got, want)
		}
	}
}
