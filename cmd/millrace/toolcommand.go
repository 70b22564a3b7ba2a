package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/freeport"
)

// commandFlags are the values of --tool-command.
type commandFlags []commandFlag

// A commandFlag is a tool server that this process starts.
type commandFlag struct {
	text string // as it was given
	url  string // where it should listen; empty until settle
	env  []string
	args []string
}

// String returns the commands as they were given.
func (c *commandFlags) String() string {
	var all []string
	for _, f := range *c {
		all = append(all, f.text)
	}
	return strings.Join(all, "; ")
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// Set parses an optional URL, assignments to the environment, a program and its arguments.
func (c *commandFlags) Set(text string) error {
	words, err := splitWords(text)
	if err != nil {
		return err
	}
	f := commandFlag{text: text}
	if len(words) > 0 && (strings.HasPrefix(words[0], "http://") || strings.HasPrefix(words[0], "https://")) {
		f.url, words = strings.TrimSuffix(words[0], "/"), words[1:]
	}
	for len(words) > 0 && assignment.MatchString(words[0]) {
		f.env, words = append(f.env, words[0]), words[1:]
	}
	if f.args = words; len(words) == 0 {
		return errors.New("it names no program")
	}
	mentions := func(s string) bool { return strings.Contains(s, "{port}") || strings.Contains(s, "{url}") }
	if f.url == "" && !slices.ContainsFunc(words, mentions) && !slices.ContainsFunc(f.env, mentions) {
		return errors.New("it has no URL in front and no {port} or {url}, so the program cannot be told where to listen")
	}
	*c = append(*c, f)
	return nil
}

// splitWords splits a command like a shell that knows only blanks, quotes and backslashes.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	in, quote := false, rune(0) // inside a word, and inside a quotation in it
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			in, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			in, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				words, in = append(words, word.String()), false
				word.Reset()
			}
		default:
			in = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quotation in it has no end")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// commandURLs is the file in a state folder with the URLs that were chosen for commands. It is needed
// because kept calls refer to tool servers by URL.
const commandURLs = "tool-commands.json"

// settle chooses URLs for the commands that have none: those of an earlier start with this state
// folder, or free ports. Without a folder they are new free ports each time.
func (c commandFlags) settle(state string) error {
	known := map[string]string{}
	name := filepath.Join(state, commandURLs)
	if state != "" {
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &known)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fresh := false
	taken := map[string]bool{}
	for i := range c {
		f := &c[i]
		if f.url == "" && !taken[known[f.text]] {
			f.url = known[f.text]
		}
		if f.url == "" {
			at, err := freeport.Address()
			if err != nil {
				return err
			}
			f.url, fresh = "http://"+at, true
			known[f.text] = f.url
		}
		taken[f.url] = true
	}
	if state == "" || !fresh {
		return nil
	}
	text, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	return replaceSecret(name, string(text)+"\n")
}

// urls returns the base URLs of the commands, or a placeholder for those that have none yet.
func (c commandFlags) urls() (all []string) {
	for _, f := range c {
		if f.url == "" {
			f.url = "--tool-command " + f.text
		}
		all = append(all, f.url)
	}
	return all
}

// commands returns the settled flags in the form that a runtime takes.
func (c commandFlags) commands() (all []host.Command) {
	for _, f := range c {
		all = append(all, host.Command{
			URL: f.url, Args: f.args, Env: append(slices.DeleteFunc(os.Environ(), isKey), f.env...),
			Output: &lines{to: stderr, before: "tool " + f.url + ": "},
		})
	}
	return all
}

// isKey reports whether a variable is the key of the model, which tools must not receive.
func isKey(variable string) bool { return strings.HasPrefix(variable, keyEnv+"=") }

// A lines writer writes a prefix before each line.
type lines struct {
	to     io.Writer
	before string

	mu   sync.Mutex
	text []byte // an unfinished line
}

// longestLine is the length at which a line is split.
const longestLine = 4 << 10

// Write implements [io.Writer].
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		if most := longestLine - len(l.text); len(part) > most {
			part, rest, whole = p[:most], p[most:], true
		}
		l.text, p = append(l.text, part...), rest
		if !whole {
			break
		}
		fmt.Fprintf(l.to, "%s%s\n", l.before, l.text)
		l.text = l.text[:0]
	}
	return n, nil
}
