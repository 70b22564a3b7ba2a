package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A ToolProfile describes a tool server to the runner: which of its operations plays which role in
// the cases, and what else can be tested. Its JSON form, which [ReadToolProfile] reads, has the
// same members; doc/conformance.md shows one.
//
// Only URL is required. A case that needs a missing setting is not applicable.
type ToolProfile struct {
	// URL is the base URL of the server.
	URL string `json:"url"`
	// PublicURL is the base URL that the server should name in its manifest, if it differs from
	// URL.
	PublicURL string `json:"public_url,omitempty"`
	// CA contains the certificate authorities, in PEM, for the server and the OAuth provider's
	// pages. Empty means the system's.
	CA string `json:"ca,omitempty"`
	// Command starts the server at URL, with its state if it has one. The runner starts it, and in
	// the cases about restarts kills it with SIGKILL and starts it again. Empty means that the
	// server is already running.
	Command []string `json:"command,omitempty"`
	// Broken are commands that start the server with an invalid manifest: "no_description" with a
	// tool that lacks a description, "bad_schema" with a tool whose schema is invalid. They must
	// exit without serving.
	Broken map[string][]string `json:"broken,omitempty"`
	// Headers are sent with every message, for example credentials. If there are any, a message
	// without them must be refused.
	Headers map[string]string `json:"headers,omitempty"`
	// OtherHeaders are the credentials of a second runtime.
	OtherHeaders map[string]string `json:"other_headers,omitempty"`
	// Roles are the operations that play the roles of the cases, by role. The function [Roles]
	// lists the roles.
	Roles map[string]Role `json:"roles,omitempty"`
	// Callbacks are the addresses, host and port, at which the runner plays two runtimes. Empty
	// means free ports on 127.0.0.1.
	Callbacks []string `json:"callbacks,omitempty"`
	// OnlyCallbacks says that the server accepts only callback URLs at Callbacks.
	OnlyCallbacks bool `json:"only_callbacks,omitempty"`
	// Limits are the times and sizes that the server documents.
	Limits Limits `json:"limits,omitzero"`
	// OAuth is required by the cases about authorization.
	OAuth *OAuthProfile `json:"oauth,omitempty"`
	// Destination is a second server that sessions can migrate to.
	Destination *Destination `json:"destination,omitempty"`
	// State is the folder in which the server keeps its state. It is searched for tokens.
	State string `json:"state,omitempty"`
	// Status says that the server answers /tool_call_status.
	Status bool `json:"status,omitempty"`
}

// A Role is an operation that plays a role of the cases.
type Role struct {
	Operation string `json:"operation"`
	// Arguments are the arguments of the call. In its strings, $TEXT and $NAME are replaced by
	// texts that the runner chooses.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Select is the choice to make, for roles that ask the user.
	Select int `json:"select,omitempty"`
	// Result is a regular expression that the operation's results match, in cases that need any
	// successful result. Empty means any result that is not an error.
	Result string `json:"result,omitempty"`
}

// roles says what the operation for each role must do.
var roles = map[string]string{
	"echo":      "its result contains $TEXT",
	"any":       "gives some result, which \"result\" describes; for servers that cannot echo",
	"slow":      "works for some seconds, two at least; on cancellation it stops, and counts one under $NAME",
	"count":     "counts one under $NAME; its result is the number",
	"peek":      "its result is the number under $NAME",
	"panic":     "fails as badly as the server's language allows",
	"invalid":   "the arguments do not match the operation's schema",
	"choose":    "asks the user; its result contains the text of the choice",
	"grant":     "asks the user unless there is a grant for the session, which choice Select gives",
	"authorize": "needs the user's authorization; its result contains the user's name at the provider",
	"leak":      "needs authorization, and tries to give the access token away",
	"subscribe": "opens a subscription to $NAME",
	"publish":   "sends an event with $TEXT to the subscriptions to $NAME; without it, events come by themselves",
	"messy":     "opens something whose cleanup fails when the thread is closed",
	"remember":  "keeps $TEXT under $NAME in the session",
	"recall":    "its result contains what is kept under $NAME in the session",
}

// Roles returns the roles that cases need, with what an operation must do to play each.
func Roles() map[string]string {
	all := make(map[string]string, len(roles))
	for name, what := range roles {
		all[name] = what
	}
	return all
}

// Limits are the times, in milliseconds, and sizes that a tool server documents. Zero means the
// default or, if there is none, that the limit is not known.
type Limits struct {
	// Ack is how long the acknowledgement of a call may take. The default is 100.
	Ack int `json:"ack_ms,omitempty"`
	// Result is how long the result of a quick operation may take. The default is 15,000.
	Result int `json:"result_ms,omitempty"`
	// Retry is how long the first repetition of a failed callback may take. The default is 10,000.
	Retry int `json:"retry_ms,omitempty"`
	// Quiet is how long the runner waits for messages that must not arrive. The default is 2,500.
	Quiet int `json:"quiet_ms,omitempty"`
	// Restart is how long the server may take to start. The default is 15,000.
	Restart int `json:"restart_ms,omitempty"`
	// Callback is how long the server waits for the answer to a callback.
	Callback int `json:"callback_ms,omitempty"`
	// Choice is how long the server waits for the user's choice.
	Choice int `json:"choice_ms,omitempty"`
	// Authorization is how long the server waits for the user's authorization.
	Authorization int `json:"authorization_ms,omitempty"`
	// Provider is how long the server waits for the OAuth provider. The default is 30,000.
	Provider int `json:"provider_ms,omitempty"`
	// Migrate is how long a migration may take. The default is 60,000.
	Migrate int `json:"migrate_ms,omitempty"`
	// Calls is how many calls there may be at once.
	Calls int `json:"calls,omitempty"`
}

func (l Limits) withDefaults() Limits {
	for _, x := range []struct {
		field *int
		value int
	}{{&l.Ack, 100}, {&l.Result, 15_000}, {&l.Retry, 10_000}, {&l.Quiet, 2_500}, {&l.Restart, 15_000}, {&l.Provider, 30_000}, {&l.Migrate, 60_000}} {
		if *x.field == 0 {
			*x.field = x.value
		}
	}
	return l
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// An OAuthProfile contains what the runner needs to play the user's browser.
type OAuthProfile struct {
	// Users are people who can log in at the provider, each with the text that a result of the role
	// authorize contains for them. Different cases use different users if there are enough.
	Users []OAuthUser `json:"users"`
	// Issuer says that the provider names itself in its answers.
	Issuer bool `json:"issuer,omitempty"`
	// Allow and Deny are the values of the buttons on the provider's consent page. Empty means
	// allow and deny.
	Allow string `json:"allow,omitempty"`
	Deny  string `json:"deny,omitempty"`
}

// An OAuthUser is a person with an account at the provider.
type OAuthUser struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	Shows    string `json:"shows"` // the text that a result contains for this user
	// UserID is the user_id of calls that only this person may authorize, for a tool server that compares the two. Such a
	// server needs one user for each authorization, about 40. Empty means that anyone who is asked may authorize.
	UserID string `json:"user_id,omitempty"`
}

// A Destination is a server of the same kind that sessions can migrate to.
type Destination struct {
	URL     string   `json:"url"`
	Command []string `json:"command,omitempty"` // starts it; see [ToolProfile.Command]
	// Import is the path that state is sent to, if known. It must not be open to everybody.
	Import string `json:"import,omitempty"`
}

// ReadToolProfile reads the JSON form of a profile. The error is a [*UsageError] that names the
// problem; an unknown member or role is an error.
func ReadToolProfile(r io.Reader) (ToolProfile, error) {
	var p ToolProfile
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, &UsageError{"profile: " + err.Error()}
	}
	return p, p.check()
}

func (p ToolProfile) check() error {
	if u, err := url.Parse(p.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return &UsageError{fmt.Sprintf("profile: url %q is not an http or https URL", p.URL)}
	}
	for name, r := range p.Roles {
		switch {
		case roles[name] == "":
			var known []string
			for k := range roles {
				known = append(known, k)
			}
			slices.Sort(known)
			return &UsageError{fmt.Sprintf("profile: there is no role %q; there are %s", name, strings.Join(known, ", "))}
		case r.Operation == "":
			return &UsageError{fmt.Sprintf("profile: role %q has no operation", name)}
		case len(r.Arguments) > 0 && !bytes.HasPrefix(bytes.TrimSpace(r.Arguments), []byte("{")):
			return &UsageError{fmt.Sprintf("profile: the arguments of role %q are not an object", name)}
		}
		if _, err := regexp.Compile(r.Result); err != nil {
			return &UsageError{fmt.Sprintf("profile: the result of role %q: %v", name, err)}
		}
	}
	return nil
}

// arguments returns the arguments of the role's call with the variables replaced.
func (r Role) arguments(vars map[string]string) (any, error) {
	if len(r.Arguments) == 0 {
		return map[string]any{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(r.Arguments))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return replaced(v, vars), nil
}

func replaced(v any, vars map[string]string) any {
	switch v := v.(type) {
	case string:
		for name, text := range vars {
			v = strings.ReplaceAll(v, "$"+name, text)
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = replaced(v[k], vars)
		}
		return v
	case []any:
		for i := range v {
			v[i] = replaced(v[i], vars)
		}
		return v
	}
	return v
}
