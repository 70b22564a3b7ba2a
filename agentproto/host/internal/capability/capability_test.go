package capability

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/tracing"
)

var someCapability = Capability{
	Server:  Identify("http://tool.test"),
	Key:     agentproto.CallKey{GroupID: "group/1", ID: "call 2"},
	Allowed: MayAll,
	Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
}

func mustSeal(t testing.TB, s Sealer, c Capability) string {
	t.Helper()
	token, err := c.seal(s)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func mustSealer(t testing.TB) Sealer {
	t.Helper()
	s, err := NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCapabilityOpens(t *testing.T) {
	s := mustSealer(t)
	long := strings.Repeat("x", agentproto.MaxID)
	for _, key := range []agentproto.CallKey{{GroupID: "g", ID: "i"}, {GroupID: "", ID: "gi"}, {GroupID: "gi", ID: ""}, {GroupID: long, ID: long}} {
		want := someCapability
		want.Key, want.Incarnation = key, math.MaxUint64
		token := mustSeal(t, s, want)
		if len(token) > 512 || strings.ContainsAny(token, "?#%+= ") || strings.Count(token, "/") != 1 {
			t.Errorf("token of %d characters: %s", len(token), token)
		}
		got, err := Open(s, token, want.Expires.Add(-time.Second))
		if err != nil || got.Key != key || got.Server != want.Server || got.Allowed != want.Allowed || !got.Expires.Equal(want.Expires) || got.Incarnation != want.Incarnation {
			t.Errorf("opened %+v, %v, want %+v", got, err, want)
		}
	}
}

// TestCapabilityLifetime catches a call whose lifetime changes when it is restored after a choice.
func TestCapabilityLifetime(t *testing.T) {
	s := mustSealer(t)
	for _, d := range []struct{ is, want time.Duration }{{0, 0}, {time.Millisecond, time.Second}, {90 * time.Second, 90 * time.Second}, {math.MaxInt64, MaxLifetime}} {
		c := someCapability
		c.Lifetime = d.is
		if got, err := Open(s, mustSeal(t, s, c), c.Expires.Add(-time.Second)); err != nil || got.Lifetime != d.want {
			t.Errorf("%v: %v, %v, want %v", d.is, got.Lifetime, err, d.want)
		}
	}
}

func TestCapabilityIsNotRepeated(t *testing.T) {
	s := mustSealer(t)
	if a, b := mustSeal(t, s, someCapability), mustSeal(t, s, someCapability); a == b {
		t.Error("two seals are equal")
	}
}

func TestCapabilityTooLong(t *testing.T) {
	c := someCapability
	c.Key.GroupID = strings.Repeat("x", 500)
	if _, err := c.seal(mustSealer(t)); !errors.Is(err, ErrBadID) {
		t.Errorf("seal = %v, want errBadID", err)
	}
}

func TestCapabilityExpires(t *testing.T) {
	s := mustSealer(t)
	token := mustSeal(t, s, someCapability)
	for _, late := range []time.Duration{0, time.Hour} {
		if _, err := Open(s, token, someCapability.Expires.Add(late)); !errors.Is(err, ErrExpired) {
			t.Errorf("opened %v after it expired: %v", late, err)
		}
	}
}

// TestZ01Altered checks that no altered token opens (Z01). It flips every bit of a token, replaces every
// character, and inserts line breaks everywhere, which the decoder would skip.
func TestZ01Altered(t *testing.T) {
	s := mustSealer(t)
	token := mustSeal(t, s, someCapability)
	refused := func(altered string) {
		t.Helper()
		if altered == token {
			return
		}
		if c, err := Open(s, altered, time.Time{}); !errors.Is(err, ErrForged) {
			t.Errorf("opened %q: %+v, %v", altered, c, err)
		}
	}
	for i := range len(token) {
		for bit := range 8 {
			b := []byte(token)
			b[i] ^= 1 << bit
			refused(string(b))
		}
		for _, c := range "aA0-_=+/\n\r %" {
			refused(token[:i] + string(c) + token[i+1:])
			refused(token[:i] + string(c) + token[i:])
		}
		refused(token[:i])
		refused(token[i:])
	}
	refused(token + "=")
	refused(token + "\n")
	kid, _, _ := strings.Cut(token, "/")
	_, other, _ := strings.Cut(mustSeal(t, mustSealer(t), someCapability), "/")
	refused(kid + "/" + other)
}

var alterations = flag.Int("altered", 100_000, "how many altered capabilities TestZ01ManyAltered tries")

// TestZ01ManyAltered checks that no randomly altered token opens (Z01, threat 1).
//
//	go test ./agentproto/host/internal/capability -run TestZ01ManyAltered -v -altered 1000000
func TestZ01ManyAltered(t *testing.T) {
	s := mustSealer(t)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/"
	var tokens []string
	genuine := map[string]bool{}
	for i := range 16 {
		c := someCapability
		c.Key.ID = fmt.Sprint(i)
		tokens = append(tokens, mustSeal(t, s, c))
		genuine[tokens[i]] = true
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	start, tried := time.Now(), 0
	for tried < *alterations {
		b := []byte(tokens[random.IntN(len(tokens))])
		for range 1 + random.IntN(3) {
			at, other := random.IntN(len(b)), random.IntN(len(b))
			switch random.IntN(6) {
			case 0:
				b[at] ^= 1 << random.IntN(8)
			case 1, 2:
				b[at] = alphabet[random.IntN(len(alphabet))]
			case 3:
				b[at], b[other] = b[other], b[at]
			case 4:
				b = slices.Delete(b, at, min(len(b), at+1+random.IntN(3)))
			case 5:
				end := tokens[random.IntN(len(tokens))]
				b = append(b[:at:at], end[min(at, len(end)):]...)
			}
		}
		if genuine[string(b)] {
			continue
		}
		tried++
		if c, err := Open(s, string(b), time.Time{}); !errors.Is(err, ErrForged) {
			t.Fatalf("seed %d: %q opened: %+v, %v", seed, b, c, err)
		}
	}
	t.Logf("%d altered tokens in %v, none opened", tried, time.Since(start))
}

// TestZ01OtherPurpose checks that an authentic text with another purpose, or one cut short, is not a capability.
func TestZ01OtherPurpose(t *testing.T) {
	s := mustSealer(t)
	for _, text := range []string{"", "short", strings.Repeat("\xff", 26), strings.Repeat("\xff", 100)} {
		kid, sealed, err := s.Seal([]byte(text), capabilityContext)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(s, kid+"/"+encode(sealed), time.Time{}); !errors.Is(err, ErrForged) {
			t.Errorf("text %q opened: %v", text, err)
		}
	}
	kid, sealed, _ := s.Seal(bytes.Repeat([]byte{1}, 40), []byte("another purpose"))
	if _, err := Open(s, kid+"/"+encode(sealed), time.Time{}); !errors.Is(err, ErrForged) {
		t.Errorf("another purpose opened: %v", err)
	}
}

// FuzzCapability checks that nothing derived from tokens opens, except the tokens themselves.
func FuzzCapability(f *testing.F) {
	s := mustSealer(f)
	tokens := map[string]bool{}
	for i := range 4 {
		c := someCapability
		c.Key.ID = strings.Repeat("i", i+1)
		tokens[mustSeal(f, s, c)] = true
	}
	for token := range tokens {
		f.Add(token, uint64(1))
		f.Add(strings.ToLower(token), uint64(2))
		f.Add(token[:len(token)-1]+"\n", uint64(3))
	}
	f.Add("", uint64(4))
	f.Add("/", uint64(5))
	f.Fuzz(func(t *testing.T, input string, seed uint64) {
		check := func(segments string) {
			if tokens[segments] {
				return
			}
			if c, err := Open(s, segments, time.Time{}); !errors.Is(err, ErrForged) {
				t.Fatalf("%q opened: %+v, %v", segments, c, err)
			}
		}
		check(input)
		// The fuzzer does not know the tokens of this run, so they are altered here.
		random := rand.New(rand.NewPCG(seed, uint64(len(input))))
		for token := range tokens {
			b := []byte(token)
			for range 1 + random.IntN(3) {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			check(string(b))
			at := random.IntN(len(token))
			check(token[:at] + input + token[at:])
			check(token[:at] + input)
			check(input + token[at:])
		}
	})
}

// TestCapabilityHasTrace checks that a URL carries the trace of its call. A URL without a trace keeps its earlier
// format. A URL whose identifiers leave no room has no trace.
func TestCapabilityHasTrace(t *testing.T) {
	s := mustSealer(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	long := strings.Repeat("x", agentproto.MaxID)
	for _, c := range []struct {
		key          agentproto.CallKey
		parent, want string
	}{
		{someCapability.Key, parent, parent},
		{someCapability.Key, "no trace", ""},
		{someCapability.Key, "", ""},
		{agentproto.CallKey{GroupID: long, ID: long}, parent, ""},
	} {
		is := someCapability
		is.Key, is.Trace = c.key, agentproto.Trace{Parent: c.parent, State: "a=1"}
		got, err := Open(s, mustSeal(t, s, is), is.Expires.Add(-time.Second))
		if err != nil || got.Trace != (agentproto.Trace{Parent: c.want}) || got.Key != c.key || got.Allowed != is.Allowed || got.Server != is.Server || !got.Expires.Equal(is.Expires) {
			t.Errorf("%q: %+v, %v", c.parent, got, err)
		}
	}
	for n := range 1 + len(tracing.ID{}) + 16 + 8 {
		text := make([]byte, n)
		if n > 0 {
			text[0] = traced
		}
		kid, sealed, err := s.Seal(text, capabilityContext)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(s, kid+"/"+encode(sealed), time.Time{}); !errors.Is(err, ErrForged) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
