package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/edge"
)

// Tokens of users: a file in which each line assigns a token to an owner. The token that serve makes, or that of --token-file, is
// the operator's and is not in the file.

// A scope is a set of permissions of a token.
type scope uint8

const (
	scopeRead  scope = 1 << iota // look at the threads of its owner
	scopeCall                    // make calls and conversations in them, and look at them
	scopeAdmin                   // everything that the operator's token may do
)

// scopeNames maps the scopes in the file to the permissions that each includes.
var scopeNames = map[string]scope{"read": scopeRead, "call": scopeRead | scopeCall, "admin": scopeRead | scopeCall | scopeAdmin}

// name returns the scope to request for s.
func (s scope) name() string {
	switch {
	case s&scopeAdmin != 0:
		return "admin"
	case s&scopeCall != 0:
		return "call"
	}
	return "read"
}

// A bearer is the user whose token a request has.
type bearer struct {
	owner  string
	user   string // passed to tools; may be empty
	scopes scope
	tools  string // patterns of the allowed tools, separated by commas; empty means all
}

// thread returns the thread of the runtime to which a bearer refers by a name. Threads of an owner begin with the owner's name,
// so no name of one owner can refer to a thread of another. A nil bearer is the operator, who uses the runtime's names.
func (b *bearer) thread(name string) string {
	if b == nil || b.scopes&scopeAdmin != 0 || name == "" {
		return name
	}
	return b.prefix() + name
}

// named is the inverse of thread.
func (b *bearer) named(thread string) string {
	if b == nil || b.scopes&scopeAdmin != 0 {
		return thread
	}
	return strings.TrimPrefix(thread, b.prefix())
}

// allNamed applies named to several threads.
func (b *bearer) allNamed(threads []string) []string {
	var names []string
	for _, thread := range threads {
		names = append(names, b.named(thread))
	}
	return names
}

// owns reports whether a thread is one that b may see.
func (b *bearer) owns(thread string) bool {
	return b == nil || b.scopes&scopeAdmin != 0 || strings.HasPrefix(thread, b.prefix())
}

// userID returns the user for a call or a session; given is the one that the request names, or "". The user of an owner is set in
// the file of tokens. If the request names another one, userID answers the request and reports false.
func (b *bearer) userID(w http.ResponseWriter, r *http.Request, given string) (user string, ok bool) {
	if b == nil || b.scopes&scopeAdmin != 0 {
		return given, true
	}
	if given != "" && given != b.user {
		edge.Refuse(w, r, http.StatusForbidden, "the token is not that of this user")
		return "", false
	}
	return b.user, true
}

// prefix begins the names of an owner's threads: the owner's name, and a character that no such name contains.
func (b *bearer) prefix() string { return b.owner + ":" }

type bearerKey struct{}

// bearerOf returns the bearer of a request, or nil for the operator.
func bearerOf(r *http.Request) *bearer {
	b, _ := r.Context().Value(bearerKey{}).(*bearer)
	return b
}

// A userToken is one line of the file.
type userToken struct {
	bearer
	digest [sha256.Size]byte
	live   context.Context // ends when the token is revoked
	revoke context.CancelFunc
}

// userTokens are the tokens of a file. Their methods may be used concurrently.
type userTokens struct {
	name string
	mu   sync.RWMutex
	all  []*userToken
	text []byte // of the file
	// tools maps owners that may not use all tools to their patterns. It keeps owners that were removed from the file, because
	// their conversations continue.
	tools map[string][]string
}

// Limits for a file of tokens.
const (
	maxTokens     = 4096
	maxTokensFile = 1 << 20 // bytes
)

// openTokens reads a file of tokens.
func openTokens(name string) (*userTokens, error) {
	t := &userTokens{name: name}
	_, err := t.reload()
	return t, err
}

// reload reads the file again, and reports whether it has changed. A token that was removed or whose settings have changed is
// revoked: requests that were made with it end. If the file is invalid, nothing changes.
func (t *userTokens) reload() (changed bool, err error) {
	text, err := readTokens(t.name)
	if err != nil {
		return false, err
	}
	all, err := parseTokens(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", t.name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all != nil && bytes.Equal(text, t.text) {
		return false, nil
	}
	stay := map[*userToken]bool{}
	for i, next := range all {
		for _, now := range t.all {
			if now.bearer == next.bearer && now.digest == next.digest {
				all[i] = now
				stay[now] = true
			}
		}
		if !stay[all[i]] {
			next.live, next.revoke = context.WithCancel(context.Background())
		}
	}
	for _, now := range t.all {
		if !stay[now] {
			now.revoke()
		}
	}
	t.all, t.text = all, text
	if t.tools == nil {
		t.tools = map[string][]string{}
	}
	for _, u := range all {
		if delete(t.tools, u.owner); u.tools != "" {
			t.tools[u.owner] = strings.Split(u.tools, ",")
		}
	}
	return true, nil
}

// errToken is returned for a token that is not in the file.
var errToken = errors.New("the header Authorization does not have the token: Bearer TOKEN")

// admit is for [edge.Token].Others.
func (t *userTokens) admit(r *http.Request, text string) (ctx context.Context, end func(), err error) {
	digest := sha256.Sum256([]byte(text))
	var found *userToken
	t.mu.RLock()
	for _, u := range t.all { // compare with all, so that the time does not reveal which one it was
		if subtle.ConstantTimeCompare(digest[:], u.digest[:]) == 1 {
			found = u
		}
	}
	t.mu.RUnlock()
	if found == nil {
		return nil, nil, errToken
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), bearerKey{}, &found.bearer))
	stop := context.AfterFunc(found.live, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// permits reports whether a session may use a tool. The names of an owner's sessions begin with the owner's name.
func (t *userTokens) permits(session, tool string) bool {
	owner, _, _ := strings.Cut(session, ":")
	t.mu.RLock()
	patterns, limited := t.tools[owner]
	t.mu.RUnlock()
	return !limited || !strings.HasPrefix(session, owner+":") || slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, tool) // the patterns were validated before
		return ok
	})
}

// readTokens reads a file of tokens. Only its owner may be able to change it.
func readTokens(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	case info.Mode().Perm()&0o022 != 0 && goruntime.GOOS != "windows":
		return nil, fmt.Errorf("%s has mode %04o: others can give themselves tokens. Run: chmod go-w %s", name, info.Mode().Perm(), name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokensFile+1))
	if err == nil && len(text) > maxTokensFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxTokensFile)
	}
	return text, err
}

// ownerName matches the name of an owner. It is a part of the names of threads.
var ownerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// parseTokens parses a file of tokens. Errors name the line and never a token.
func parseTokens(text []byte) (all []*userToken, err error) {
	all = []*userToken{}
	owners, digests := map[string]bearer{}, map[[sha256.Size]byte]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		u, err := parseToken(words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		other, known := owners[u.owner]
		switch {
		case digests[u.digest]:
			return nil, fmt.Errorf("line %d: the token is that of another line", n)
		case known && other.user != u.user:
			return nil, fmt.Errorf("line %d: another line gives %s another user", n, u.owner)
		case known && other.tools != u.tools:
			return nil, fmt.Errorf("line %d: another line gives %s other tools", n, u.owner)
		case len(all) >= maxTokens:
			return nil, fmt.Errorf("there are more than %d tokens", maxTokens)
		}
		owners[u.owner], digests[u.digest] = u.bearer, true
		all = append(all, u)
	}
	return all, lines.Err()
}

// parseToken parses a line: the owner, the token, and settings.
func parseToken(words []string) (*userToken, error) {
	if len(words) < 2 {
		return nil, errors.New("it has to have the name of an owner and a token: the SHA-256 of one in hexadecimal digits, the name of a file with it, or env:NAME")
	}
	u := &userToken{bearer: bearer{owner: words[0]}}
	if !ownerName.MatchString(u.owner) || u.owner == operatorName {
		return nil, fmt.Errorf("%q is no name of an owner: up to 64 letters, digits and . _ -, but not %s", u.owner, operatorName)
	}
	if raw, err := hex.DecodeString(words[1]); err == nil && len(raw) == len(u.digest) {
		u.digest = [sha256.Size]byte(raw)
	} else {
		text, err := secretAt(words[1])
		if err != nil {
			return nil, err
		}
		if !tokenText.MatchString(text) {
			return nil, fmt.Errorf("%s has no token: 32 to 512 letters, digits and - . _ ~ + /, such as openssl rand -hex 32 prints", words[1])
		}
		u.digest = sha256.Sum256([]byte(text))
	}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		switch {
		case name == "user" && value != "" && u.user == "":
			u.user = value
		case name == "scopes" && u.scopes == 0:
			for s := range strings.SplitSeq(value, ",") {
				if scopeNames[s] == 0 {
					return nil, fmt.Errorf("scopes are of read, call and admin, not %q", s)
				}
				u.scopes |= scopeNames[s]
			}
		case name == "tools" && value != "" && u.tools == "":
			for p := range strings.SplitSeq(value, ",") {
				if _, err := path.Match(p, ""); err != nil || p == "" {
					return nil, fmt.Errorf("tools has the pattern %q: it has to be a name, in which * and ? stand for anything and any letter, and [a-c] for one of these", p)
				}
			}
			u.tools = value
		default:
			return nil, fmt.Errorf("%q is neither user=ID, scopes=read,call,admin nor tools=PATTERN,…, or is there twice", w)
		}
	}
	switch {
	case u.scopes == 0:
		u.scopes = scopeNames["call"]
	case u.scopes&scopeAdmin != 0 && u.tools != "":
		return nil, errors.New("a token with the scope admin may have all tools: its threads are anybody's")
	}
	return u, nil
}

// operatorName is the owner of requests to /mcp with the operator's token.
const operatorName = "api"
