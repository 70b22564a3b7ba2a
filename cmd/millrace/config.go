package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A config is the content of the file of --config. Each member stands for the text of a flag of serve. A flag on the command line
// wins over the file; a --tool replaces all tools of the file, and the same holds for --model and --mcp.
type config struct {
	State         string   `json:"state" flag:"state"`
	KeepFor       string   `json:"keep_for" flag:"keep-for"`
	Partitions    int      `json:"partitions" flag:"partitions"`
	Witness       string   `json:"witness" flag:"witness"`
	AcceptKeys    bool     `json:"accept_other_keys" flag:"accept-other-keys"`
	MigrationKey  string   `json:"migration_key" flag:"migration-key"`
	MemoryMiB     *int64   `json:"memory_mib" flag:"memory"`
	Timeout       string   `json:"timeout" flag:"timeout"`
	MaxResult     string   `json:"max_result" flag:"max-result"`
	AskStatus     bool     `json:"ask_status" flag:"ask-status"`
	AllowHTTP     bool     `json:"allow_http" flag:"allow-http"`
	AllowNetworks []string `json:"allow_networks" flag:"allow-network"`
	AllowOrigins  []string `json:"allow_origins" flag:"allow-origin"`

	API struct {
		Listen    string    `json:"listen" flag:"api"`
		Hosts     []string  `json:"hosts" flag:"api-host"`
		TokenFile string    `json:"token_file" flag:"token-file"`
		Tokens    string    `json:"tokens" flag:"tokens"`
		TLS       configTLS `json:"tls" flag:"api-"`
		URL       string    `json:"url" flag:"api-url"`
		OIDC      struct {
			Issuer   string `json:"issuer" flag:"oidc-issuer"`
			Audience string `json:"audience" flag:"oidc-audience"`
		} `json:"oidc"`
	} `json:"api"`
	Callbacks struct {
		Listen string    `json:"listen" flag:"listen"`
		Public string    `json:"public" flag:"public"`
		TLS    configTLS `json:"tls" flag:"callback-"`
	} `json:"callbacks"`
	Monitor struct {
		Listen  string `json:"listen" flag:"monitor"`
		Backups string `json:"backups" flag:"backups"`
	} `json:"monitor"`
	NATS struct {
		Servers           []string `json:"servers" flag:"nats"`
		Name              string   `json:"name" flag:"name"`
		Replicas          int      `json:"replicas" flag:"replicas"`
		Credentials       string   `json:"credentials" flag:"credentials"`
		NKey              string   `json:"nkey" flag:"nats-nkey"`
		CA                string   `json:"ca" flag:"nats-ca"`
		Cert              string   `json:"cert" flag:"nats-cert"`
		Key               string   `json:"key" flag:"nats-key"`
		System            string   `json:"system" flag:"nats-system"`
		SystemCredentials string   `json:"system_credentials" flag:"nats-system-credentials"`
		AssumeDurable     bool     `json:"assume_durable" flag:"assume-durable"`
	} `json:"nats"`
	Tools []configTool         `json:"tools"`
	MCP   map[string]configMCP `json:"mcp"`
	Model struct {
		OpenAI  string       `json:"openai"`
		Script  string       `json:"script"`
		Name    string       `json:"name" flag:"model-name"`
		Key     configSecret `json:"key" flag:"model-key"`
		Context string       `json:"context" flag:"model-context"`
	} `json:"model"`
	Models []configModel `json:"models"`
}

// A configTLS names the files of a listener. Its flags are tls-cert and tls-key after the prefix of the listener.
type configTLS struct {
	Cert string `json:"cert" flag:"tls-cert"`
	Key  string `json:"key" flag:"tls-key"`
}

// A configTool is a tool server, either of another process or started by this one.
type configTool struct {
	URL     string                  `json:"url"`
	Command string                  `json:"command"` // as --tool-command without a URL
	Headers map[string]configSecret `json:"headers"`
	Secret  configSecret            `json:"secret"`  // the whsec_ secrets
	Origins []string                `json:"origins"` // besides its own
}

// A configMCP is an MCP server, by its name: a program that speaks MCP on its standard input and output, or a URL.
type configMCP struct {
	Command []string                `json:"command"`
	Env     map[string]configSecret `json:"env"`
	URL     string                  `json:"url"`
	Headers map[string]configSecret `json:"headers"`
	Repeat  map[string]string       `json:"repeat"` // by tool: never, if-safe or always
	Pin     bool                    `json:"pin"`    // refuses tools that have changed

	Idle     string `json:"idle"`      // how long its program runs unused, or never
	PerUser  bool   `json:"per_user"`  // a program for each user
	MaxUsers *int   `json:"max_users"` // how many at once

	Client configClient `json:"client"`
}

// A configClient is the registration of this program at an authorization server.
type configClient struct {
	ID     string       `json:"id"`
	Issuer string       `json:"issuer"`
	Secret configSecret `json:"secret"`
}

// A configModel is one of several models. The first one is the default.
type configModel struct {
	Name     string       `json:"name"`
	OpenAI   string       `json:"openai"`
	Script   string       `json:"script"`
	Model    string       `json:"model"` // the model of the API
	Key      configSecret `json:"key"`
	Fallback []string     `json:"fallback"`
	Context  string       `json:"context"`
}

// A configSecret says where a secret is. The secret is never in the file itself.
type configSecret struct {
	File string `json:"file"`
	Env  string `json:"env"`
}

// place returns the secret's place in the notation of flags, or "" if there is none.
func (s configSecret) place() (string, error) {
	switch {
	case s.File != "" && s.Env != "":
		return "", errors.New("has both a file and an env")
	case s.Env != "":
		return envPrefix + s.Env, nil
	}
	return s.File, nil
}

// envPrefix begins the place of a secret in an environment variable. Any other place is a file.
const envPrefix = "env:"

// secretAt reads the secret at a place.
func secretAt(place string) (string, error) {
	if name, ok := strings.CutPrefix(place, envPrefix); ok {
		value, ok := os.LookupEnv(name)
		if !ok || value == "" {
			return "", fmt.Errorf("the variable %s of the environment is not set", name)
		}
		return value, nil
	}
	data, err := os.ReadFile(place)
	return strings.TrimRight(string(data), "\r\n"), err
}

// mostConfig limits the size of a configuration file, in bytes.
const mostConfig = 1 << 20

// readConfig reads a file. An unknown or repeated member is an error that names its place.
func readConfig(name string) (*config, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostConfig+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > mostConfig:
		return nil, fmt.Errorf("%s has more than %d bytes", name, mostConfig)
	}
	c := new(config)
	if err := json.Unmarshal(data, c, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, inConfig(err))
	}
	return c, nil
}

// inConfig converts an error of the JSON package to one that names the place, but not the wrong value.
func inConfig(err error) error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		switch {
		case errors.Is(e.Err, json.ErrUnknownName):
			return fmt.Errorf("%s is not a member of a configuration", e.JSONPointer)
		case e.JSONPointer != "":
			return fmt.Errorf("%s has to be %s", e.JSONPointer, wordOf(e.GoType))
		}
		return fmt.Errorf("it has to be an object")
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(e.Err, jsontext.ErrDuplicateName) {
		return fmt.Errorf("%s is there twice", e.JSONPointer)
	}
	return err
}

// wordOf names the kind of JSON value that a member has to be.
func wordOf(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wordOf(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Int, reflect.Int64:
		return "an integer"
	}
	return "an object"
}

// A setting is the text of a flag, and its place in the file.
type setting struct{ flag, text, at string }

// settings returns the settings of a file, in their order there.
func (c *config) settings() (all []setting, err error) {
	all = settingsOf(reflect.ValueOf(c).Elem(), "", "", nil)
	for i, t := range c.Tools {
		more, err := t.settings(fmt.Sprintf("/tools/%d", i))
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.MCP)) {
		more, err := c.MCP[name].settings(name, "/mcp/"+name)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	switch m := &c.Model; {
	case m.OpenAI != "" && m.Script != "":
		return nil, errors.New("/model has both openai and script")
	case m.OpenAI != "":
		all = append(all, setting{"model", "openai:" + m.OpenAI, "/model/openai"})
	case m.Script != "":
		all = append(all, setting{"model", "script:" + m.Script, "/model/script"})
	}
	if len(c.Models) > 0 && (c.Model.OpenAI != "" || c.Model.Script != "") {
		return nil, errors.New("there are both /model and /models")
	}
	for i, m := range c.Models {
		more, err := m.settings(fmt.Sprintf("/models/%d", i))
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	key, err := c.Model.Key.place()
	if err != nil {
		return nil, fmt.Errorf("/model/key %w", err)
	}
	if key != "" {
		all = append(all, setting{"model-key", key, "/model/key"})
	}
	return all, nil
}

// settingsOf returns the settings of the members that stand for a flag. Members with a zero value set nothing.
func settingsOf(v reflect.Value, at, prefix string, all []setting) []setting {
	for i := range v.NumField() {
		f, is := v.Type().Field(i), v.Field(i)
		name, at := f.Tag.Get("flag"), at+"/"+f.Tag.Get("json")
		if is.IsZero() {
			continue
		}
		add := func(v reflect.Value, at string) {
			all = append(all, setting{prefix + name, fmt.Sprint(v.Interface()), at})
		}
		switch {
		case is.Type() == reflect.TypeFor[configSecret]():
		case is.Kind() == reflect.Struct:
			all = settingsOf(is, at, name, all)
		case name == "":
		case is.Kind() == reflect.Slice:
			for i := range is.Len() {
				add(is.Index(i), at+"/"+strconv.Itoa(i))
			}
		default:
			add(reflect.Indirect(is), at)
		}
	}
	return all
}

// configFlag adds --config to the flags of a command. The caller must call apply after the flags are parsed; it sets the flags
// that are not given on the command line.
func configFlag(fs *flag.FlagSet) (name *string, apply func() error) {
	name = fs.String("config", "", "`file` that says what flags say, see 'millrace check -h'; a flag that is given wins over it")
	return name, func() error {
		if *name == "" {
			return nil
		}
		c, err := readConfig(*name)
		if err != nil {
			return err
		}
		all, err := c.settings()
		if err != nil {
			return fmt.Errorf("%s: %w", *name, err)
		}
		given := map[string]bool{}
		fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
		tools, model, mcp := given["tool"] || given["tool-command"], given["model"], given["mcp"]
		for _, s := range all {
			if given[s.flag] || tools && strings.HasPrefix(s.at, "/tools/") || model && strings.HasPrefix(s.at, "/model") || mcp && strings.HasPrefix(s.at, "/mcp/") {
				continue
			}
			if err := fs.Set(s.flag, s.text); err != nil {
				return fmt.Errorf("%s: %s: %w", *name, s.at, err)
			}
		}
		return nil
	}
}
