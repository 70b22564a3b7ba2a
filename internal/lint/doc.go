// Package lint checks the rules of this repository that no other tool knows. Each
// rule is a test; its comment says what the rule is for.
package lint
