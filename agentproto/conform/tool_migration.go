package conform

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// destination returns the second server and its endpoint for calls.
func (c *toolCase) destination() (d *Destination, endpoint string) {
	d = c.profile.Destination
	if d == nil {
		c.lacks("the profile has no second server that sessions can migrate to (destination)")
	}
	m, err := c.manifest(c.ctx, strings.TrimSuffix(d.URL, "/"), "")
	c.must(err, "ask the destination for its manifest")
	endpoint, _ = m.fields["endpoint"].(string)
	return d, endpoint
}

// migrate tells the server to move a session, which must finish within the limit.
func (c *toolCase) migrate(session, destination string) *reply {
	defer c.waiting(millis(c.limits.Migrate))()
	begun := time.Now()
	got := c.post(c.base+movePath, fields{"session_id": session, "destination_url": destination})
	if took, limit := time.Since(begun), millis(c.limits.Migrate); took > limit {
		c.fail("a migration", "an answer after "+took.String(), "one within "+limit.String())
	}
	return got
}

// keep stores a text in a new session and returns its root thread.
func (c *toolCase) keep(name, text string) (session string) {
	session = c.thread()
	if m := c.call("remember", vars{"NAME": name, "TEXT": text}).set(fields{"group_id": session}).start().result(); m.isError() {
		c.fail("a call of role remember", m, "a result that is no error")
	}
	return session
}

// recall sends a call for the stored text to an endpoint.
func (c *toolCase) recall(session, name, endpoint string) *toolCall {
	k := c.call("recall", vars{"NAME": name}).set(fields{"group_id": session})
	c.status("a call of role recall", c.post(endpoint, k.body), http.StatusOK)
	return k
}

// G07: when the migration is answered, the destination has the whole session.
func (c *toolCase) migrates() {
	d, there := c.destination()
	name, text := unique("note"), unique("kept")
	session := c.keep(name, text)
	other := c.keep(name, "of another session")
	c.recall(session, name, c.endpoint).good(text)
	c.status("a migration", c.migrate(session, d.URL), http.StatusOK)
	k := c.recall(session, name, there)
	k.what = "a call at the destination, after the migration"
	k.good(text)
	c.recall(other, name, c.endpoint).good("of another session") // stays
}

// G08: if the destination is down, the migration is answered with an error, and nothing is lost.
func (c *toolCase) destinationDown() {
	d, _ := c.destination()
	if c.dest == nil {
		c.lacks("the profile has no command for the destination, so it cannot be taken down")
	}
	name, text := unique("note"), unique("kept")
	session := c.keep(name, text)
	c.dest.kill()
	got := c.migrate(session, d.URL)
	defer c.waiting(millis(c.limits.Restart))()
	c.must(c.dest.start(), "start the destination")
	c.must(c.dest.ready(c.ctx, millis(c.limits.Restart), func(ctx context.Context) bool {
		m, err := c.manifest(ctx, strings.TrimSuffix(d.URL, "/"), "")
		return err == nil && m.status == http.StatusOK
	}), "wait for the destination")
	if got.status < 400 || strings.TrimSpace(got.body) == "" {
		c.fail("a migration to a destination that is down", got, "a status of 400 or more, and a text")
	}
	c.recall(session, name, c.endpoint).good(text)
	c.status("the migration again, with the destination up", c.migrate(session, d.URL), http.StatusOK)
}

// G09: a session without state here counts as moved.
func (c *toolCase) unknownSession() {
	d, _ := c.destination()
	c.status("the migration of an unknown session", c.migrate(c.thread(), d.URL), http.StatusOK)
}

// G10: state goes only where the operator allows.
func (c *toolCase) badDestination() {
	c.destination()
	name, text := unique("note"), unique("kept")
	session := c.keep(name, text)
	watch := c.watch("127.0.0.1:0")
	addresses := []string{
		"http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "", "not a url",
		"http://[fd00::1]/", "http://10.255.255.1/", "http://user:secret@127.0.0.1/", "https://evil.example/",
		"http://" + watch.addr + "/", "https://" + watch.addr + "/",
	}
	for _, address := range addresses {
		if got := c.migrate(session, address); got.status < 400 {
			c.fail("a migration to "+address, got, "a status of 400 or more")
		}
	}
	watch.untouched("migrations to addresses that are not allowed")
	c.recall(session, name, c.endpoint).good(text)
}

// G11: a session that has moved is gone from the source, and moving it again has no effect.
func (c *toolCase) migratedAlready() {
	d, there := c.destination()
	name, text := unique("note"), unique("kept")
	session := c.keep(name, text)
	for range 2 {
		c.status("a migration, twice", c.migrate(session, d.URL), http.StatusOK)
	}
	k := c.recall(session, name, c.endpoint)
	k.what = "a call at the source, after the migration"
	if m := k.bad(); strings.Contains(m.words(), text) {
		c.fail(k.what, m, "an error result without the state")
	}
	c.recall(session, name, there).good(text)
}

// G12: state is accepted only from the source.
func (c *toolCase) forgedImport() {
	d, there := c.destination()
	if d.Import == "" {
		c.lacks("the profile does not say where the destination takes state in (destination.import)")
	}
	address := strings.TrimSuffix(d.URL, "/") + d.Import
	session, name := c.thread(), unique("note")
	forged := map[string]any{
		"an empty object":        fields{},
		"a session as JSON":      fields{"session_id": session, "state": fields{name: "forged"}},
		"a path as session":      fields{"session_id": "../../etc/passwd", "state": fields{}},
		"something that is none": []byte("PK\x03\x04../../../../etc/cron.d/x"),
		"nothing":                []byte{},
	}
	for what, body := range forged {
		for _, changes := range [][]change{{c.without()}, nil, {c.without(), header("Content-Type", "application/octet-stream")}, {header("Content-Type", "application/octet-stream")}} {
			if got := c.post(address, body, changes...); got.status < 400 || got.status >= 500 {
				c.fail("an import of "+what, got, "a status of 400 to 499")
			}
		}
	}
	m := c.recall(session, name, there).result()
	if strings.Contains(m.words(), "forged") {
		c.fail("a forged import", m, "no state from it")
	}
	if len(c.profile.Headers) > 0 {
		got := c.post(c.base+movePath, fields{"session_id": session, "destination_url": d.URL}, c.without())
		c.status(fmt.Sprintf("%s without credentials", movePath), got, http.StatusUnauthorized, http.StatusForbidden)
	}
}
