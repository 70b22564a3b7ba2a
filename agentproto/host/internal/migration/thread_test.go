package migration

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// TestValidForEver makes the callback URLs of calls that arrive and may last, or whose URLs may stay valid, for as long as a duration
// can say. It catches a URL that has expired when it is made.
func TestValidForEver(t *testing.T) {
	const endless = time.Duration(math.MaxInt64)
	sealer, err := capability.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, x := range []struct{ remaining, after, lasts time.Duration }{
		{time.Minute, time.Hour, time.Hour + time.Minute - time.Second},
		{time.Minute, endless, capability.MaxLifetime},
		{endless, time.Minute, capability.MaxLifetime},
		{endless, endless, capability.MaxLifetime},
	} {
		c := capability.Capability{
			Server: capability.Identify("http://tool.test"), Key: agentproto.CallKey{GroupID: "g", ID: "c"}, Allowed: capability.MayAll,
			Expires: now.Add(validFor(x.remaining, x.after)), Lifetime: x.remaining,
		}
		url, err := c.URL(sealer, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []time.Duration{0, x.lasts} {
			if _, err := capability.Open(sealer, strings.TrimPrefix(url, capability.Path), now.Add(at)); err != nil {
				t.Errorf("%v, and %v after it: the URL is refused after %v: %v (expired: %v)", x.remaining, x.after, at, err, errors.Is(err, capability.ErrExpired))
			}
		}
	}
}
