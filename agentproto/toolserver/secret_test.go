package toolserver

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
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

func TestMemoryVault(t *testing.T) {
	v, ctx, key := NewMemoryVault(), context.Background(), TokenKey{User: "u"}
	if _, err := v.Load(ctx, key); err != ErrNoToken {
		t.Errorf("Load = %v", err)
	}
	v.Save(ctx, key, &UserToken{Access: NewSecret("a")})
	if got, err := v.Load(ctx, key); err != nil || got.Access.Reveal() != "a" {
		t.Errorf("Load = %v, %v", got, err)
	}
	v.Delete(ctx, key)
	if _, err := v.Load(ctx, key); err != ErrNoToken {
		t.Errorf("Load = %v", err)
	}
}

func TestO19_SecretIsNotEncoded(t *testing.T) {
	type config struct {
		Name  string
		Token Secret
	}
	var out bytes.Buffer
	for _, v := range []any{NewSecret(canary), config{"n", NewSecret(canary)}, map[string]Secret{"k": NewSecret(canary)}} {
		gob.NewEncoder(&out).Encode(v) // which may be an error
		b, _ := cbor.Marshal(v)
		out.Write(b)
	}
	if strings.Contains(out.String(), canary) {
		t.Error("the secret is encoded")
	}
}
