package agentproto

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A chargedPattern is a pattern whose uses are charged.
type chargedPattern struct {
	*regexp.Regexp // nil if RE2 does not support the pattern
	meter          *meter
	size           int // instructions
}

// MatchString charges for the work of the slowest matcher.
func (p *chargedPattern) MatchString(s string) bool {
	p.meter.charge(1 + (1+len(s))*(1+p.size/4))
	return p.Regexp == nil || p.Regexp.MatchString(s)
}

// String returns the pattern.
func (p *chargedPattern) String() string {
	if p.Regexp == nil {
		return "unknown"
	}
	return p.Regexp.String()
}

// compilePattern compiles a pattern of a schema or, while arguments are validated, a value that must be a pattern.
func (m *meter) compilePattern(pattern string) (jsonschema.Regexp, error) {
	if m.checking {
		m.charge(8 * len(pattern))
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if foreign(pattern, err) {
		return &chargedPattern{meter: m}, nil
	}
	if err != nil {
		return nil, err
	}
	if m.checking {
		return &chargedPattern{meter: m}, nil // only whether it is a valid pattern matters
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if m.patterns += len(prog.Inst); m.patterns > maxPatternSize {
		return nil, fmt.Errorf("patterns of more than %d instructions", maxPatternSize)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return &chargedPattern{re, m, len(prog.Inst)}, nil
}

// foreign reports whether an error means that a pattern uses a feature that ECMAScript has and RE2 has not, rather than that the
// pattern is wrong.
func foreign(pattern string, err error) bool {
	var serr *syntax.Error
	if !errors.As(err, &serr) {
		return false
	}
	switch serr.Code {
	case syntax.ErrInvalidEscape, syntax.ErrInvalidPerlOp, syntax.ErrInvalidRepeatSize:
		return true
	}
	for _, look := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if strings.Contains(pattern, look) {
			return true
		}
	}
	return false
}

// dropForeign removes the patterns of s that cannot be checked. It refuses a patternProperties with one.
func dropForeign(s *jsonschema.Schema) *SchemaError {
	if p, ok := s.Pattern.(*chargedPattern); ok && p.Regexp == nil {
		s.Pattern = nil
	}
	for p := range s.PatternProperties {
		if p, ok := p.(*chargedPattern); ok && p.Regexp == nil {
			return &SchemaError{Reason: "has patternProperties that RE2 does not know"}
		}
	}
	return nil
}
