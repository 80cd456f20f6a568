// Judges exported histories with Porcupine: one verdict a line, in the order of the files.
//
// Knossos's notation is judged as compare-and-set registers, the other as a key-value store. An operation without an
// answer may have happened at any time after it was invoked, or never.
package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/anishathalye/porcupine"
)

type input struct {
	key, f, value string
}

type output struct {
	known bool
	value string
}

var (
	ofRegister = regexp.MustCompile(`^\{:process (\d+), :type :(\w+), :f :(\w+), :value \["([^"]*)" (.*)\], :time \d+\}$`)
	ofStore    = regexp.MustCompile(`^\{:process (\d+), :type :(\w+), :f :(\w+), :key "([^"]*)", :value (.*)\}$`)
)

func step(state, in, out interface{}) (bool, interface{}) {
	held, asked, answered := state.(string), in.(input), out.(output)
	switch asked.f {
	case "read", "get":
		return !answered.known || answered.value == held, held
	case "write", "put":
		return true, asked.value
	case "append":
		return true, held + asked.value
	}
	pair := strings.SplitN(strings.Trim(asked.value, "[]"), " ", 2)
	if pair[0] == held {
		return true, pair[1]
	}
	return !answered.known, held
}

func model(first string) porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, operation := range history {
				key := operation.Input.(input).key
				byKey[key] = append(byKey[key], operation)
			}
			parts := [][]porcupine.Operation{}
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() interface{} { return first },
		Step: step,
	}
}

func read(path string) (porcupine.Model, []porcupine.Operation) {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	first := ""
	open := map[string]int{}
	failed := map[int]bool{}
	operations := []porcupine.Operation{}
	scanner := bufio.NewScanner(file)
	moment := int64(0)
	for scanner.Scan() {
		moment++
		fields := ofStore.FindStringSubmatch(scanner.Text())
		if fields == nil {
			first = "nil"
			fields = ofRegister.FindStringSubmatch(scanner.Text())
		}
		if fields == nil {
			panic("no event: " + scanner.Text())
		}
		process, kind, asked := fields[1], fields[2], input{fields[4], fields[3], strings.Trim(fields[5], `"`)}
		if kind == "invoke" {
			open[process] = len(operations)
			operations = append(operations, porcupine.Operation{Input: asked, Call: moment, Output: output{}, Return: -1})
			continue
		}
		number := open[process]
		delete(open, process)
		switch kind {
		case "ok":
			operations[number].Return = moment
			operations[number].Output = output{true, asked.value}
		case "fail":
			failed[number] = true
		}
	}
	happened := []porcupine.Operation{}
	for number, operation := range operations {
		if operation.Return < 0 {
			// All of them return after everything else: what may never have happened comes last then.
			operation.Return = moment + 1
		}
		if !failed[number] {
			happened = append(happened, operation)
		}
	}
	return model(first), happened
}

func main() {
	for _, path := range os.Args[1:] {
		specification, history := read(path)
		if porcupine.CheckOperations(specification, history) {
			fmt.Println("valid")
		} else {
			fmt.Println("invalid")
		}
	}
}
