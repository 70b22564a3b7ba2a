package conform

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// disguises returns the encodings in which a secret is searched for.
func disguises(secret string) []string {
	b := []byte(secret)
	return []string{
		secret, url.QueryEscape(secret), hex.EncodeToString(b),
		strings.TrimRight(base64.StdEncoding.EncodeToString(b), "="), base64.RawURLEncoding.EncodeToString(b),
	}
}

// found returns the encoded secret that a text contains, or "" if it contains none. Secrets of
// fewer than eight bytes are skipped, since they would be found everywhere.
func found(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) < 8 {
			continue
		}
		for _, d := range disguises(s) {
			if strings.Contains(text, d) {
				return d
			}
		}
	}
	return ""
}

// secretless fails if a text contains a secret.
func (c *toolCase) secretless(what, text string) {
	if s := found(text, c.provider().Secrets()); s != "" {
		c.fail("a search in "+what, "the secret "+clip(s, 12), "no token, code or verifier")
	}
}

// O19: nothing that the server sent or wrote contains a secret, neither of this case nor of any
// before it.
func (c *toolCase) noSecretGetsOut() {
	c.provider()
	v := c.authorized()
	if _, ok := c.profile.Roles["leak"]; ok {
		for _, way := range []string{"plain", "base64", "url", "error", "panic", "question", "event"} {
			k := c.call("leak", vars{"TEXT": way}).set(fields{"user_id": v.id}).start()
			k.what = "a call that gives its token away (" + way + ")"
			m := k.next("tool_result", "user_choice", "subscription_event")
			c.secretless(k.what, m.raw)
			k.cancel()
		}
	}
	c.mu.Lock()
	pages := strings.Join(c.pages, "\n")
	c.mu.Unlock()
	c.secretless("the answers and pages", pages)
	for _, h := range c.hubs {
		c.secretless("the callbacks", h.evidence())
	}
	for _, p := range []*process{c.proc, c.dest} {
		if p != nil {
			c.secretless("what the server has written", p.String())
		}
	}
	if c.target.Output != nil {
		c.secretless("what the server has written", c.target.Output())
	}
}

// O20: the files of the server cannot be read without its key.
func (c *toolCase) vaultIsSealed() {
	if c.profile.State == "" {
		c.lacks("the profile does not say where the server keeps its state (state)")
	}
	secrets := c.provider().Secrets()
	c.authorized()
	files := 0
	err := filepath.WalkDir(c.profile.State, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if s := found(string(data), append(secrets, c.target.Provider.Secrets()...)); s != "" {
			c.fail("a search in "+path, "the secret "+clip(s, 12), "tokens that are encrypted")
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			c.fail("the state folder", fmt.Sprintf("%s has mode %v", path, info.Mode()), "files of their owner alone")
		}
		return err
	})
	c.must(err, "read the state folder")
	if files == 0 {
		c.fail("an authorization", "the state folder is empty", "tokens are kept")
	}
}
