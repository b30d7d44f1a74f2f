// Command evaluator asks matchConditions about admission requests with the code and the cost limits of an API server.
//
// The first line of its input names the entries of webhooks with their conditions: {"mutate": [{"name", "expression"}]}.
// Every other line is a question, {"entries": ["mutate"], "request": AdmissionRequest}, and is answered by one line:
// {"mutate": {"matches": true, "error": "", "failed": "", "cost": 123}}, or {"undecodable": why} for an object that no
// API server would have read. It ends with status 1 and a text where a condition does not compile.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// oldest is what an API server of Kubernetes 1.28 demands of expressions that are written to it: it takes only what its
// predecessor knew, so that one can go back to that.
var oldest = version.MajorMinor(1, 27)

type entry struct {
	evaluator cel.ConditionEvaluator
	names     []string
}

type question struct {
	Entries []string                     `json:"entries"`
	Request admissionv1.AdmissionRequest `json:"request"`
}

type answer struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error"`
	Failed  string `json:"failed"`
	Cost    int64  `json:"cost"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	if !lines.Scan() {
		return fmt.Errorf("no conditions: %v", lines.Err())
	}
	entries, err := compile(lines.Bytes())
	if err != nil {
		return err
	}
	objects := decoder()
	answers := bufio.NewWriter(out)
	encoder := json.NewEncoder(answers)
	for lines.Scan() {
		found, err := ask(entries, objects, lines.Bytes())
		if err != nil {
			return err
		}
		if err := encoder.Encode(found); err != nil {
			return err
		}
		if err := answers.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}

// compile reads the conditions of every entry as an API server does that is asked to store them, and as it does when it
// has them stored.
func compile(line []byte) (map[string]entry, error) {
	var written map[string][]admissionregistrationv1.MatchCondition
	if err := json.Unmarshal(line, &written); err != nil {
		return nil, fmt.Errorf("conditions: %w", err)
	}
	declared := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	old := cel.NewConditionCompiler(environment.MustBaseEnvSet(oldest))
	current := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	compiled := map[string]entry{}
	for name, conditions := range written {
		var accessors []cel.ExpressionAccessor
		var names []string
		for _, condition := range conditions {
			read := matchconditions.MatchCondition(condition)
			accessors, names = append(accessors, &read), append(names, condition.Name)
		}
		evaluator := current.CompileCondition(accessors, declared, environment.StoredExpressions)
		faults := old.CompileCondition(accessors, declared, environment.NewExpressions).CompilationErrors()
		for _, fault := range append(faults, evaluator.CompilationErrors()...) {
			return nil, fmt.Errorf("%s: %w", name, fault)
		}
		compiled[name] = entry{evaluator, names}
	}
	return compiled, nil
}

func decoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}

func ask(entries map[string]entry, objects runtime.Decoder, line []byte) (map[string]any, error) {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, fmt.Errorf("question: %w", err)
	}
	attributes, err := attributesOf(&asked.Request, objects)
	if err != nil {
		return map[string]any{"undecodable": err.Error()}, nil
	}
	found := map[string]any{}
	for _, name := range asked.Entries {
		one, known := entries[name]
		if !known {
			return nil, fmt.Errorf("entry %s: no conditions of it", name)
		}
		found[name] = one.answer(attributes)
	}
	return found, nil
}

func attributesOf(request *admissionv1.AdmissionRequest, objects runtime.Decoder) (*admission.VersionedAttributes, error) {
	kind := schema.GroupVersionKind(request.Kind)
	object, err := decoded(request.Object.Raw, kind, objects)
	if err != nil {
		return nil, err
	}
	old, err := decoded(request.OldObject.Raw, kind, objects)
	if err != nil {
		return nil, err
	}
	who := &user.DefaultInfo{Name: request.UserInfo.Username, Groups: request.UserInfo.Groups}
	record := admission.NewAttributesRecord(
		object, old, kind, request.Namespace, request.Name, schema.GroupVersionResource(request.Resource),
		request.SubResource, admission.Operation(request.Operation), nil, request.DryRun != nil && *request.DryRun, who,
	)
	versioned := &admission.VersionedAttributes{Attributes: record, VersionedKind: kind}
	versioned.VersionedObject, versioned.VersionedOldObject = object, old
	return versioned, nil
}

// decoded is a built-in object as its type has it, and any other as it is written.
func decoded(raw []byte, kind schema.GroupVersionKind, objects runtime.Decoder) (runtime.Object, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	object, _, err := objects.Decode(raw, &kind, nil)
	if runtime.IsNotRegisteredError(err) {
		custom := &unstructured.Unstructured{}
		return custom, custom.UnmarshalJSON(raw)
	}
	return object, err
}

// answer is what the API server would do; an error counts where another condition is false already, too.
func (one entry) answer(attributes *admission.VersionedAttributes) answer {
	budget := int64(celconfig.RuntimeCELCostBudgetMatchConditions)
	request := cel.CreateAdmissionRequest(attributes.Attributes, asResource(attributes), asKind(attributes))
	results, left, err := one.evaluator.ForInput(
		context.Background(), attributes, request, cel.OptionalVariableBindings{}, nil, budget,
	)
	if err != nil {
		return answer{Error: err.Error(), Cost: budget}
	}
	said := answer{Matches: true, Cost: budget - left}
	var errors []string
	for index, result := range results {
		if result.Error != nil {
			errors = append(errors, fmt.Sprintf("%s: %v", one.names[index], result.Error))
		} else if result.EvalResult.Value() != true && said.Matches {
			said.Matches, said.Failed = false, one.names[index]
		}
	}
	said.Error = strings.Join(errors, "; ")
	return said
}

func asResource(attributes *admission.VersionedAttributes) metav1.GroupVersionResource {
	return metav1.GroupVersionResource(attributes.GetResource())
}

func asKind(attributes *admission.VersionedAttributes) metav1.GroupVersionKind {
	return metav1.GroupVersionKind(attributes.VersionedKind)
}
