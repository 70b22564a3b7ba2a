package toolserver

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

const canary = "canary-4711"

func TestO19_SecretDoesNotPrint(t *testing.T) {
	s := NewSecret(canary)
	type config struct {
		Public  Secret
		private Secret
		Pointer *Secret
	}
	c := config{s, s, &s}
	var out bytes.Buffer
	for _, v := range []any{s, &s, c, &c, []Secret{s}, map[string]Secret{"k": s}, UserToken{Access: s, Refresh: s}, OAuthProvider{ClientSecret: s}, fmt.Errorf("wrapped: %v", s)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%e", "%p", "%U", "%c", "%w", "%!"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("value", "v", v)
		}
		b, _ := json.Marshal(v)
		out.Write(b)
		b, _ = jsonv2.Marshal(v)
		out.Write(b)
		b, _ = xml.Marshal(v)
		out.Write(b)
	}
	if strings.Contains(out.String(), canary) || strings.Contains(out.String(), fmt.Sprintf("%x", canary)) {
		t.Error("the secret is printed")
	}
	if s.Reveal() != canary || s.Empty() || !(Secret{}).Empty() {
		t.Error("the secret is lost")
	}
	var read struct{ S Secret }
	if err := json.Unmarshal([]byte(`{"S":"`+canary+`"}`), &read); err != nil || read.S.Reveal() != canary {
		t.Errorf("read %q, %v", read.S.Reveal(), err)
	}
}

func TestO19_LeakGuard(t *testing.T) {
	var g leakGuard
	find := func(text string, want bool) {
		t.Helper()
		if g.finds([]byte(text)) != want {
			t.Errorf("finds(%q) = %v", text, !want)
		}
	}
	token := func(access, refresh string) *UserToken {
		return &UserToken{Access: NewSecret(access), Refresh: NewSecret(refresh)}
	}
	find(`"anything"`, false)
	g.add(NewSecret("client-secret"))
	g.add(NewSecret("short"))
	key := TokenKey{User: "u"}
	g.replace(key, token("access-token-1", `with "quotes"`))
	g.replace(key, token("access-token-1", `with "quotes"`)) // the same again
	g.replace(TokenKey{User: "v"}, token("access-token-1", ""))
	find(`{"text":"client-secret"}`, true)
	find(`client-secre`, false)
	find(`short`, false)
	find(`xaccess-token-1x`, true)
	find(`access-token-2`, false)
	find(`{"text":"with \"quotes\""}`, true)
	g.replace(key, token("access-token-2", "refresh-token-2"))
	find(`with \"quotes\"`, true) // the one before may still be good
	g.replace(key, token("access-token-3", "refresh-token-3"))
	g.rebuild() // until which what is old may be found, too
	find(`with \"quotes\"`, false)
	find(`access-token-1`, true) // of the other user
	find(`refresh-token-2 refresh-token-3`, true)
	g.replace(TokenKey{User: "v"}, token("a", ""))
	g.replace(TokenKey{User: "v"}, token("b", ""))
	g.rebuild()
	find(`access-token-1`, false)
}

func TestMemory(t *testing.T) {
	m := memory{period: time.Hour}
	for i := range maxGeneration + 1 {
		m.add(digest{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	if !m.has(digest{}) || len(m.young)+len(m.old) != maxGeneration+1 {
		t.Error("the previous generation is lost")
	}
	for i := range maxGeneration {
		m.add(digest{byte(i), byte(i >> 8), byte(i >> 16), 1})
	}
	if n := len(m.young) + len(m.old); n > 2*maxGeneration {
		t.Errorf("%d digests are kept", n)
	}
}

func TestMemoryVault(t *testing.T) {
	v, ctx, key := NewMemoryVault(), context.Background(), TokenKey{User: "u"}
	if _, err := v.Load(ctx, key); err != ErrNoToken {
		t.Errorf("Load = %v", err)
	}
	v.Save(ctx, key, &UserToken{Access: NewSecret("a")})
	if got, err := v.Load(ctx, key); err != nil || got.Access.Reveal() != "a" || !got.valid() {
		t.Errorf("Load = %v, %v", got, err)
	}
	v.Delete(ctx, key)
	if _, err := v.Load(ctx, key); err != ErrNoToken {
		t.Errorf("Load = %v", err)
	}
}
