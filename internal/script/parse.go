package script

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/txtar"
)

// A Script is a conversation with a flow, and its result.
type Script struct {
	File  string // for messages
	Story string
	Flow  string            // name of a registered flow
	Args  map[string]string // of the flow
	Lines []Line
	Out   string

	args    string // as written in the file
	in      string
	flowRow int
}

// A Line is an action on a flow.
type Line struct {
	Row  int // line number in the file, from 1
	Verb string
	Port string
	Rest string        // key and value, or value
	Wait time.Duration // for wait
}

// sections are the sections of a script, in order.
var sections = []string{"flow", "in", "out"}

// Parse parses a script. Errors begin with the file and the number of a line.
func Parse(file string, data []byte) (*Script, error) {
	s := &Script{File: file, Args: make(map[string]string)}
	at, story := -1, []string(nil)
	var flow []Line
	for i, text := range strings.Split(string(data), "\n") {
		row := i + 1
		if name, ok := marker(text); ok {
			at++
			if at >= len(sections) || sections[at] != name {
				return nil, s.errorf(row, "the section %q is not expected here: a script has the sections %s, in this order", name, strings.Join(sections, ", "))
			}
			continue
		}
		switch at {
		case -1:
			story = append(story, text)
		case 0:
			if words := strings.Fields(text); len(words) > 0 {
				flow = append(flow, Line{Row: row, Rest: strings.Join(words, " ")})
			}
		case 1:
			s.in += text + "\n"
			line, err := s.line(row, text)
			if err != nil {
				return nil, err
			}
			if line.Verb != "" {
				s.Lines = append(s.Lines, line)
			}
		case 2:
			s.Out += text + "\n"
		}
	}
	for len(story) > 0 && strings.TrimSpace(story[0]) == "" {
		story = story[1:]
	}
	s.Story, s.Out, s.in = strings.TrimSuffix(body(strings.Join(story, "\n")), "\n"), body(s.Out), body(s.in)
	switch {
	case at < 1:
		return nil, s.errorf(1, "a script has the sections %s: %s is missing", strings.Join(sections, ", "), sections[at+1])
	case s.Story == "":
		return nil, s.errorf(1, "the first lines do not say why the script exists")
	case len(flow) != 1:
		return nil, s.errorf(1, "the section flow has %d lines, and wants one: the name of a flow and its arguments", len(flow))
	}
	return s, s.flow(flow[0])
}

// flow parses the line that names the flow.
func (s *Script) flow(line Line) error {
	s.flowRow = line.Row
	words := strings.Fields(line.Rest)
	s.Flow, s.args = words[0], line.Rest
	for _, word := range words[1:] {
		k, v, ok := strings.Cut(word, "=")
		if _, twice := s.Args[k]; !ok || k == "" || twice {
			return s.errorf(line.Row, "%q is no argument: it has to be name=value, and each name once", word)
		}
		s.Args[k] = v
	}
	return nil
}

// line parses one line of the conversation. The result for an empty line or a comment
// has no verb.
func (s *Script) line(row int, text string) (Line, error) {
	words := strings.Fields(text)
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return Line{}, nil
	}
	line := Line{Row: row, Verb: words[0]}
	want := map[string]string{"send": "send INPUT VALUE, or send INPUT KEY VALUE", "put": "put INPUT KEY VALUE", "close": "close INPUT", "tick": "tick", "wait": "wait DURATION"}
	n := map[string]int{"send": 3, "put": 4, "close": 2, "tick": 1, "wait": 2}
	switch {
	case want[line.Verb] == "":
		return line, s.errorf(row, "%q is no verb: a line begins with send, put, close, tick or wait", line.Verb)
	case len(words) < n[line.Verb] || len(words) > n[line.Verb] && line.Verb != "send" && line.Verb != "put":
		return line, s.errorf(row, "%q: want %s", strings.TrimSpace(text), want[line.Verb])
	}
	switch line.Verb {
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil || d < 0 {
			return line, s.errorf(row, "%q is no time to wait, such as 5s", words[1])
		}
		line.Wait = d
	case "send", "put", "close":
		line.Port, line.Rest = words[1], strings.Join(words[2:], " ")
	}
	return line, nil
}

// Format returns the script as a file.
func (s *Script) Format() []byte {
	return txtar.Format(&txtar.Archive{
		Comment: []byte(s.Story + "\n"),
		Files:   []txtar.File{{Name: "flow", Data: []byte(s.args + "\n")}, {Name: "in", Data: []byte(s.in)}, {Name: "out", Data: []byte(s.Out)}},
	})
}

func (s *Script) errorf(row int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", s.File, row, fmt.Sprintf(format, args...))
}

// marker returns the name of the section that a line begins.
func marker(text string) (name string, ok bool) {
	rest, begins := strings.CutPrefix(strings.TrimSuffix(text, "\r"), "-- ")
	name, ends := strings.CutSuffix(rest, " --")
	return strings.TrimSpace(name), begins && ends && strings.TrimSpace(name) != ""
}

// body returns a section without empty lines at its end. It leaves the other lines as they are: without its spaces, a line may look
// like the beginning of a section.
func body(text string) string {
	lines := strings.Split(text, "\n")
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// ticks returns the lines between ticks. The lines after the last tick count as a tick
// as well.
func (s *Script) ticks() (all [][]Line) {
	all = [][]Line{nil}
	for _, line := range s.Lines {
		if line.Verb == "tick" {
			all = append(all, nil)
			continue
		}
		all[len(all)-1] = append(all[len(all)-1], line)
	}
	if last := len(all) - 1; len(all[last]) == 0 {
		all = slices.Delete(all, last, last+1)
	}
	return all
}
