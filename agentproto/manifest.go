package agentproto

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/internal/plain"
)

// A Manifest describes a toolset: where it is invoked and what it offers.
type Manifest struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Endpoint is where invocations are posted. It need not share the origin of the address that the manifest came from; the
	// loader has to check that.
	Endpoint string `json:"endpoint"`
	Tools    []Tool `json:"tools"`
	// NeedsMigration says that the server has state to move and serves /migrate.
	NeedsMigration bool `json:"needsMigration,omitzero"`
}

// A Tool is one tool of a toolset.
type Tool struct {
	// Name has 1 to 128 printable characters, without spaces.
	Name        string `json:"name"`
	Description string `json:"description"`
	// InputSchema is a JSON schema of the arguments; see [CompileSchema].
	InputSchema jsontext.Value `json:"inputSchema"`
	Annotations Annotations    `json:"annotations,omitzero"`
	// DisplayScript is kept unchanged. It is never run.
	DisplayScript string `json:"displayScript,omitempty"`
}

// Annotations are what a tool says about itself. They come from the tool server, so they may make a runtime more careful but
// never less.
type Annotations struct {
	RequiresAuth string `json:"requiresAuth,omitempty"` // the OAuth provider it needs
	ReadOnly     bool   `json:"readOnly,omitzero"`
	Destructive  bool   `json:"destructive,omitzero"`
	Idempotent   bool   `json:"idempotent,omitzero"`
	LongRunning  bool   `json:"longRunning,omitzero"`
}

// DecodeManifest reads a manifest and validates all of it, including the schemas. One bad tool refuses the whole manifest. The
// error is a *[MessageError].
func DecodeManifest(data []byte, lim Limits) (*Manifest, error) {
	o := openMessage("manifest", data, lim)
	m := &Manifest{
		Name:           o.name("name"),
		Description:    o.text("description"),
		Endpoint:       o.url("endpoint", httpURL),
		NeedsMigration: o.boolean("needsMigration"),
	}
	seen := map[string]bool{}
	if !o.each("tools", '{', "an object", func(at *object, i int, value jsontext.Value) {
		t := at.element(i, value)
		m.Tools = append(m.Tools, bindTool(t))
		name := m.Tools[i].Name
		if seen[name] {
			t.refuse(t.pointer("name"), "is that of another tool, %q", name)
		}
		seen[name] = true
	}) {
		o.refuse("/tools", "is missing")
	}
	if len(m.Tools) == 0 {
		o.refuse("/tools", "must not be empty")
	}
	if err := o.result(); err != nil {
		return nil, err
	}
	return m, nil
}

func bindTool(o *object) Tool {
	t := Tool{Name: o.name("name"), Description: o.str("description"), DisplayScript: o.text("displayScript")}
	if strings.ContainsFunc(t.Name, notInToolName) {
		o.refuse(o.pointer("name"), "must be made of characters that can be seen, without spaces")
	}
	if t.InputSchema = o.object("inputSchema"); t.InputSchema != nil && o.err == nil {
		if _, err := compileSchema(t.InputSchema); err != nil {
			o.refuse(o.pointer("inputSchema"), "is a schema that %s", err.Reason)
			o.err.cause = err
		}
	}
	a := o.child("annotations", o.optional("annotations", '{', "an object"))
	t.Annotations = Annotations{
		RequiresAuth: a.text("requiresAuth"),
		ReadOnly:     a.boolean("readOnly"),
		Destructive:  a.boolean("destructive"),
		Idempotent:   a.boolean("idempotent"),
		LongRunning:  a.boolean("longRunning"),
	}
	return t
}

// notInToolName reports whether r is refused in the name of a tool: white space, and whatever is invisible or changes where other
// characters appear. Not every accepted name can be shown to a model; package conversation replaces those that the model's API
// would refuse.
func notInToolName(r rune) bool {
	return r == ' ' || !unicode.IsPrint(r) || plain.Invisible(r)
}

// name returns a required name of 1 to 128 characters.
func (o *object) name(name string) string {
	s := o.id(name)
	if utf8.RuneCountInString(s) > maxNameRunes {
		o.refuse(o.pointer(name), "is longer than 128 characters")
	}
	return s
}

// text returns an optional string, "" if it is absent.
func (o *object) text(name string) string {
	if s := o.optStr(name); s != nil {
		return *s
	}
	return ""
}
