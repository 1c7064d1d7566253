//! Validation messages, compared with both Helm versions.

use bytes::Bytes;
use std::fmt::Write;

use helm_template::budget::Budget;
use helm_template::data::Data;
use helm_template::json;
use helm_template::profile::Profile;
use helm_template::value::{Map, Value};
use proptest::prelude::*;

use super::check;
use crate::chart::Chart;

/// Schema, values, and the errors of Helm 3 and Helm 4.
#[rustfmt::skip]
const VALIDATION_ERRORS: &[(&str, &str, &str, &str)] = &[
    (r#"{"properties":{"a":{"type":"integer"}}}"#, r#"{"a":"x"}"#, "c:\n- a: Invalid type. Expected: integer, given: string\n", "c:\n- at '/a': got string, want integer\n"),
    (r#"{"properties":{"a":{"type":"integer"}}}"#, r#"{"a":"\u007f"}"#, "c:\nyaml: control characters are not allowed", "c:\n- at '/a': got string, want integer\n"),
    (r#"{"properties":{"a":{"type":["string","null"]}}}"#, r#"{"a":1.5}"#, "c:\n- a: Invalid type. Expected: [string,null], given: number\n", "c:\n- at '/a': got number, want null or string\n"),
    (r#"{"properties":{"a":{"type":"string"}}}"#, r#"{"a":null}"#, "c:\n- a: Invalid type. Expected: string, given: null\n", "c:\n- at '/a': got null, want string\n"),
    (r#"{"properties":{"a":{"type":"number"}}}"#, r#"{"a":1}"#, "", ""),
    (r#"{"required":["q","w"]}"#, "{}", "c:\n- (root): q is required\n- (root): w is required\n", "c:\n- at '': missing properties 'q', 'w'\n"),
    (r#"{"required":["q"]}"#, "{}", "c:\n- (root): q is required\n", "c:\n- at '': missing property 'q'\n"),
    (r#"{"additionalProperties":false,"properties":{"a":{}}}"#, r#"{"a":1,"b":2}"#, "c:\n- (root): Additional property b is not allowed\n", "c:\n- at '': additional properties 'b' not allowed\n"),
    (r#"{"properties":{"a":{"enum":["x","y",3]}}}"#, r#"{"a":"z"}"#, "c:\n- a: a must be one of the following: \"x\", \"y\", 3\n", "c:\n- at '/a': value must be one of 'x', 'y', 3\n"),
    (r#"{"properties":{"a":{"enum":["x"]}}}"#, r#"{"a":"z"}"#, "c:\n- a: a must be one of the following: \"x\"\n", "c:\n- at '/a': value must be 'x'\n"),
    (r#"{"properties":{"a":{"const":"x"}}}"#, r#"{"a":"z"}"#, "c:\n- a: a does not match: \"x\"\n", "c:\n- at '/a': value must be 'x'\n"),
    (r#"{"properties":{"a":{"enum":[[1]]}}}"#, r#"{"a":1}"#, "c:\n- a: a must be one of the following: [1]\n", "c:\n- at '/a': 'enum' failed\n"),
    (r#"{"properties":{"a":{"minimum":5}}}"#, r#"{"a":1}"#, "c:\n- a: Must be greater than or equal to 5\n", "c:\n- at '/a': minimum: got 1, want 5\n"),
    (r#"{"properties":{"a":{"maximum":65535}}}"#, r#"{"a":70000}"#, "c:\n- a: Must be less than or equal to 65535\n", "c:\n- at '/a': maximum: got 70,000, want 65,535\n"),
    (r#"{"properties":{"a":{"minimum":1000000}}}"#, r#"{"a":1234.5}"#, "c:\n- a: Must be greater than or equal to 1e+06\n", "c:\n- at '/a': minimum: got 1,234.5, want 1×10⁰⁶\n"),
    (r#"{"properties":{"a":{"exclusiveMinimum":0}}}"#, r#"{"a":0}"#, "c:\n- a: Must be greater than 0\n", "c:\n- at '/a': exclusiveMinimum: got 0, want 0\n"),
    (r#"{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}"#, r#"{"a":1}"#, "c:\n- a: Must be greater than 1\n", "c:\n- at '/a': exclusiveMinimum: got 1, want 1\n"),
    (r#"{"properties":{"a":{"exclusiveMaximum":3}}}"#, r#"{"a":3}"#, "c:\n- a: Must be less than 3\n", "c:\n- at '/a': exclusiveMaximum: got 3, want 3\n"),
    (r#"{"properties":{"a":{"multipleOf":0.1}}}"#, r#"{"a":0.25}"#, "c:\n- a: Must be a multiple of 0.1\n", "c:\n- at '/a': multipleOf: got 0.25, want 0.1\n"),
    (r#"{"properties":{"a":{"multipleOf":0.1}}}"#, r#"{"a":0.3}"#, "", ""),
    (r#"{"properties":{"a":{"minLength":3}}}"#, r#"{"a":"é"}"#, "c:\n- a: String length must be greater than or equal to 3\n", "c:\n- at '/a': minLength: got 1, want 3\n"),
    (r#"{"properties":{"a":{"maxLength":1}}}"#, r#"{"a":"éé"}"#, "c:\n- a: String length must be less than or equal to 1\n", "c:\n- at '/a': maxLength: got 2, want 1\n"),
    (r#"{"properties":{"a":{"pattern":"^[a-z]+$"}}}"#, r#"{"a":"It's"}"#, "c:\n- a: Does not match pattern '^[a-z]+$'\n", "c:\n- at '/a': 'It\\'s' does not match pattern '^[a-z]+$'\n"),
    (r#"{"properties":{"a":{"minItems":2,"uniqueItems":true}}}"#, r#"{"a":[]}"#, "c:\n- a: Array must have at least 2 items\n", "c:\n- at '/a': minItems: got 0, want 2\n"),
    (r#"{"properties":{"a":{"uniqueItems":true}}}"#, r#"{"a":[1,2,1.0]}"#, "c:\n- a: array items[0,2] must be unique\n", "c:\n- at '/a': items at 0 and 2 are equal\n"),
    (r#"{"properties":{"a":{"maxItems":1}}}"#, r#"{"a":[1,2]}"#, "c:\n- a: Array must have at most 1 items\n", "c:\n- at '/a': maxItems: got 2, want 1\n"),
    (r#"{"properties":{"a":{"items":{"type":"string"}}}}"#, r#"{"a":["x",5]}"#, "c:\n- a.1: Invalid type. Expected: string, given: integer\n", "c:\n- at '/a/1': got number, want string\n"),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}"#, r#"{"a":["x",5,6]}"#, "c:\n- a: No additional items allowed on array\n", "c:\n- at '/a': last 2 additionalItem(s) not allowed\n"),
    (r#"{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":false}}}"#, r#"{"a":["x",5]}"#, "c:\n- a.0: False always fails validation\n- a.1: False always fails validation\n", "c:\n- at '/a/1': false schema\n"),
    (r#"{"properties":{"a":{"contains":{"type":"string"}}}}"#, r#"{"a":[1]}"#, "c:\n- a: At least one of the items must match\n- a.0: Invalid type. Expected: string, given: integer\n", "c:\n- at '/a': no items match contains schema\n  - at '/a/0': got number, want string\n"),
    (r#"{"properties":{"a":{"minProperties":1}}}"#, r#"{"a":{}}"#, "c:\n- a: Must have at least 1 properties\n", "c:\n- at '/a': minProperties: got 0, want 1\n"),
    (r#"{"properties":{"a":{"maxProperties":1}}}"#, r#"{"a":{"x":1,"y":2}}"#, "c:\n- a: Must have at most 1 properties\n", "c:\n- at '/a': maxProperties: got 2, want 1\n"),
    (r#"{"properties":{"a":{"propertyNames":{"pattern":"^x"}}}}"#, r#"{"a":{"y":1}}"#, "c:\n- a: Property name of \"y\" does not match\n- a: Does not match pattern '^x'\n", "c:\n- at '/a': invalid propertyName 'y'\n  - at '': 'y' does not match pattern '^x'\n"),
    (r#"{"properties":{"a":{"patternProperties":{"^x":{"type":"string"}}}}}"#, r#"{"a":{"x/1":1}}"#, "c:\n- a.x/1: Invalid type. Expected: string, given: integer\n", "c:\n- at '/a/x~11': got number, want string\n"),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"dependencies":{"x":["y","z"]}}}}"#, r#"{"a":{"x":1}}"#, "c:\n- a: Has a dependency on y\n- a: Has a dependency on z\n", "c:\n- at '/a': properties 'y', 'z' required, if 'x' exists\n"),
    (r#"{"properties":{"a":{"dependentRequired":{"x":["y"]}}}}"#, r#"{"a":{"x":1}}"#, "", "c:\n- at '/a': properties 'y' required, if 'x' exists\n"),
    (r#"{"properties":{"a":{"not":{"type":"string"}}}}"#, r#"{"a":"s"}"#, "c:\n- a: Must not validate the schema (not)\n", "c:\n- at '/a': 'not' failed\n"),
    (r#"{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer","minimum":5}]}}}"#, r#"{"a":1}"#, "c:\n- a: Must validate at least one schema (anyOf)\n- a: Must be greater than or equal to 5\n", "c:\n- at '/a': 'anyOf' failed\n  - at '/a': got number, want string\n  - at '/a': minimum: got 1, want 5\n"),
    (r#"{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"boolean"}]}}}"#, r#"{"a":1}"#, "c:\n- a: Must validate one and only one schema (oneOf)\n- a: Invalid type. Expected: string, given: integer\n", "c:\n- at '/a': 'oneOf' failed, none matched\n  - at '/a': got number, want string\n  - at '/a': got number, want boolean\n"),
    (r#"{"properties":{"a":{"oneOf":[{"type":"string"},{"minLength":0}]}}}"#, r#"{"a":"s"}"#, "c:\n- a: Must validate one and only one schema (oneOf)\n", "c:\n- at '/a': 'oneOf' failed, subschemas 0, 1 matched\n"),
    (r#"{"properties":{"a":{"allOf":[{"minLength":3},{"pattern":"x"}]}}}"#, r#"{"a":"s"}"#, "c:\n- a: String length must be greater than or equal to 3\n- a: Does not match pattern 'x'\n- a: Must validate all the schemas (allOf)\n", "c:\n- at '/a': 'allOf' failed\n  - at '/a': minLength: got 1, want 3\n  - at '/a': 's' does not match pattern 'x'\n"),
    (r#"{"properties":{"a":{"if":{"type":"string"},"then":{"minLength":3},"else":{"minimum":3}}}}"#, r#"{"a":"s"}"#, "c:\n- a: Must validate \"then\" as \"if\" was valid\n- a: String length must be greater than or equal to 3\n", "c:\n- at '/a': minLength: got 1, want 3\n"),
    (r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}"##, r#"{"a":1}"#, "c:\n- a: Invalid type. Expected: string, given: integer\n", "c:\n- at '/a': got number, want string\n"),
    (r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"minLength":3,"pattern":"q"}}}"##, r#"{"a":"z"}"#, "c:\n- a: String length must be greater than or equal to 3\n- a: Does not match pattern 'q'\n", "c:\n- at '/a': validation failed\n  - at '/a': minLength: got 1, want 3\n  - at '/a': 'z' does not match pattern 'q'\n"),
    (r##"{"properties":{"a":{"$ref":"#x"}},"$defs":{"q":{"$anchor":"x","type":"string"}},"$id":"https://longshore.dev/values.json"}"##, r#"{"a":"s"}"#, "", ""),
    (r##"{"properties":{"a":{"$ref":"#/definitions/none"}}}"##, "{}", "c:\nObject has no key 'definitions'", "c:\njson-pointer in \"file:///values.schema.json#/definitions/none\" not found"),
    (r#"{"properties":{"a":{"unevaluatedProperties":false,"allOf":[{"properties":{"x":{}}}]}}}"#, r#"{"a":{"x":1,"y":2}}"#, "", "c:\n- at '/a/y': false schema\n"),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"email"}}}"#, r#"{"a":"nobody"}"#, "c:\n- a: Does not match format 'email'\n", "c:\n- at '/a': 'nobody' is not valid email: missing @\n"),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"date"}}}"#, r#"{"a":"2023-02-30"}"#, "c:\n- a: Does not match format 'date'\n", "c:\n- at '/a': '2023-02-30' is not valid date: parsing time \"2023-02-30\": day out of range\n"),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"ipv4"}}}"#, r#"{"a":"1.2.3"}"#, "c:\n- a: Does not match format 'ipv4'\n", "c:\n- at '/a': '1.2.3' is not valid ipv4: expected four decimals\n"),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"uri"}}}"#, r#"{"a":"x/y"}"#, "c:\n- a: Does not match format 'uri'\n", "c:\n- at '/a': 'x/y' is not valid uri: relative url\n"),
    (r#"{"properties":{"a":{"format":"email"}}}"#, r#"{"a":"nobody"}"#, "c:\n- a: Does not match format 'email'\n", ""),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"hostname"}}}"#, r#"{"a":"-x"}"#, "c:\n- a: Does not match format 'hostname'\n", "c:\n- at '/a': '-x' is not valid hostname: label starts with hyphen\n"),
    (r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,"$defs":{"tree":{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/tree","$dynamicAnchor":"node","type":"object","properties":{"data":true,"children":{"type":"array","items":{"$dynamicRef":"#node"}}}}}}"##, r#"{"children":[{"data":1}]}"#, "", ""),
    (r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,"$defs":{"tree":{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/tree","$dynamicAnchor":"node","type":"object","properties":{"data":true,"children":{"type":"array","items":{"$dynamicRef":"#node"}}}}}}"##, r#"{"children":[{"daat":1}]}"#, "", "c:\n- at '/children/0/daat': false schema\n- at '/children': false schema\n"),
    (r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,"$defs":{"tree":{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/tree","$dynamicAnchor":"node","type":"object","properties":{"data":true,"children":{"type":"array","items":{"$dynamicRef":"#node"}}}}}}"##, r#"{"children":[{"children":[{"daat":1}]}]}"#, "", "c:\n- at '/children/0': validation failed\n  - at '/children/0/children/0/daat': false schema\n  - at '/children/0/children': false schema\n- at '/children': false schema\n"),
    (r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,"$defs":{"tree":{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/tree","$dynamicAnchor":"node","type":"object","properties":{"data":true,"children":{"type":"array","items":{"$dynamicRef":"#node"}}}}}}"##, r#"{"daat":1}"#, "", "c:\n- at '/daat': false schema\n"),
    (r##"{"$dynamicRef":"#x","$defs":{"a":{"$dynamicAnchor":"x","type":"object","required":["k"]}}}"##, r#"{"a":1}"#, "", "c:\n- at '': missing property 'k'\n"),
    (r##"{"$dynamicRef":"#x","$defs":{"a":{"$anchor":"x","type":"object","required":["k"]}}}"##, r#"{"a":1}"#, "", "c:\n- at '': missing property 'k'\n"),
    (r##"{"$dynamicRef":"#/$defs/a","$defs":{"a":{"$dynamicAnchor":"x","type":"object","required":["k"]}}}"##, r#"{"a":1}"#, "", "c:\n- at '': missing property 'k'\n"),
    (r##"{"$dynamicRef":"#nope"}"##, r#"{"a":1}"#, "", "c:\nanchor in \"file:///values.schema.json#nope\" not found in schema \"file:///values.schema.json\""),
    (r##"{"properties":{"l":{"$ref":"list"}},"$defs":{"s":{"$dynamicAnchor":"T","type":"string"},"list":{"$id":"list","type":"array","items":{"$dynamicRef":"#T"},"$defs":{"d":{"$dynamicAnchor":"T"}}}}}"##, r#"{"l":["a",1]}"#, "", "c:\n- at '/l/1': got number, want string\n"),
    (r##"{"$id":"https://x/root","$dynamicAnchor":"T","properties":{"l":{"$ref":"list"}},"required":["l"],"$defs":{"list":{"$id":"list","type":"array","items":{"$dynamicRef":"#T"},"$defs":{"d":{"$dynamicAnchor":"T"}}}}}"##, r#"{"l":[{"l":[]},{}]}"#, "", "c:\n- at '/l/1': missing property 'l'\n"),
    (r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","$id":"https://x/s","$recursiveAnchor":true,"$ref":"t","unevaluatedProperties":false,"$defs":{"t":{"$id":"t","$recursiveAnchor":true,"properties":{"c":{"items":{"$recursiveRef":"#"}},"d":true}}}}"##, r#"{"c":[{"d":1},{"e":2}]}"#, "", "c:\n- at '/c/1/e': false schema\n- at '/c': false schema\n"),
    (r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","$id":"https://x/s","$ref":"t","unevaluatedProperties":false,"$defs":{"t":{"$id":"t","$recursiveAnchor":true,"properties":{"c":{"items":{"$recursiveRef":"#"}},"d":true}}}}"##, r#"{"c":[{"d":1},{"e":2}]}"#, "", ""),
    (r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"c":{"items":{"$recursiveRef":"#"}},"d":{"type":"string"}}}"##, r#"{"c":[{"d":1}]}"#, "", "c:\n- at '/c/0/d': got number, want string\n"),
    (r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","$dynamicRef":"#x","$defs":{"a":{"$dynamicAnchor":"x","type":"string"}}}"##, r#"{"a":1}"#, "", ""),
    (r##"{"$schema":"http://json-schema.org/draft-07/schema#","$dynamicRef":"#x","$recursiveRef":"#","$defs":{"a":{"$dynamicAnchor":"x","type":"string"}}}"##, r#"{"a":1}"#, "", ""),
    (r##"{"allOf":[{"$dynamicRef":"#x"},{"$ref":"#/$defs/b"}],"$defs":{"a":{"$dynamicAnchor":"x","type":"object","required":["k"]},"b":{"required":["z"]}}}"##, r#"{"a":1}"#, "c:\n- (root): z is required\n- (root): Must validate all the schemas (allOf)\n", "c:\n- at '': 'allOf' failed\n  - at '': missing property 'k'\n  - at '': missing property 'z'\n"),
    (r##"{"$dynamicRef":"#x","allOf":[{"required":["q"]}],"not":{},"$ref":"#/$defs/b","$defs":{"a":{"$dynamicAnchor":"x","type":"object","required":["k","l"],"minProperties":5},"b":{"required":["z"]}}}"##, r#"{"a":1}"#, "c:\n- (root): z is required\n", "c:\n- at '': missing property 'z'\n- at '': validation failed\n  - at '': minProperties: got 1, want 5\n  - at '': missing properties 'k', 'l'\n- at '': 'not' failed\n- at '': 'allOf' failed\n  - at '': missing property 'q'\n"),
    (r##"{"properties":{"a":{"$dynamicRef":"#x"}},"$defs":{"a":{"$dynamicAnchor":"x","properties":{"a":{"$dynamicRef":"#x"}},"type":["object","null"]}}}"##, r#"{"a":{"a":{"a":1}}}"#, "", "c:\n- at '/a/a/a': got number, want null or object\n"),
    (r##"{"$dynamicAnchor":"x","$dynamicRef":"#x"}"##, r#"{"a":1}"#, "", "c:\n- at '': both /$dynamicRef and  resolve to \"file:///values.schema.json#\" causing reference cycle\n"),
    (r##"{"$recursiveRef":"#"}"##, r#"{"a":1}"#, "", "c:\n- at '': both /$recursiveRef and  resolve to \"file:///values.schema.json#\" causing reference cycle\n"),
    ("true", r#"{"a":1}"#, "", ""),
    ("false", r#"{"a":1}"#, "c:\n- (root): False always fails validation\n", "c:\n- at '': false schema\n"),
    ("{}", r#"{"a":1}"#, "", ""),
    ("", "{}", "c:\nEOF", "c:\nEOF"),
    ("{", "{}", "c:\nunexpected EOF", "c:\nunexpected EOF"),
    ("nope", "{}", "c:\ninvalid character 'o' in literal null (expecting 'u')", "c:\ninvalid character 'o' in literal null (expecting 'u')"),
    (r#"{"type":5"#, "{}", "c:\nunexpected EOF", "c:\nunexpected EOF"),
];

/// Schemas that Helm 3 rejects.
#[rustfmt::skip]
const REJECTED_BY_HELM_3: &[(&str, &str)] = &[
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"strin"}}}"#, "c:\nhas a primitive type that is NOT VALID -- given: /strin/ Expected valid values are:[array boolean integer number null object string]"),
    (r#"{"properties":{"a":{"minLength":-1}}}"#, "c:\nminLength must be greater than or equal to 0"),
    (r#"{"properties":{"a":5}}"#, "c:\nExpected: valid schema, given: Invalid JSON"),
    (r#"{"required":"x"}"#, "c:\nrequired must be of an array"),
    (r#"{"required":["a","a"]}"#, "c:\nrequired items must be unique"),
    (r#"{"properties":{"a":{"enum":[1,1]}}}"#, "c:\nenum items must be unique"),
    (r#"{"properties":{"a":{"pattern":"["}}}"#, "c:\npattern must be a valid regex"),
    (r#"{"properties":{"a":{"multipleOf":0}}}"#, "c:\nmultipleOf must be strictly greater than 0"),
    (r#"{"$ref":5}"#, "c:\nInvalid type. Expected: string, given: $ref"),
    (r#"{"properties":[]}"#, "c:\nproperties must be of type object"),
    (r#"{"properties":{"a":{"minLength":3,"maxLength":2}}}"#, "c:\nminLength cannot be greater than maxLength"),
    (r#"{"properties":{"a":{"$ref":"x.json"}}}"#, "c:\nReference /x.json must be canonical"),
    (r#"{"properties":{"a":{"items":5}}}"#, "c:\nInvalid type. Expected: valid schema/array of schemas, given: items"),
    (r#"{"definitions":5}"#, "c:\nInvalid type. Expected: array of schemas, given: definitions"),
    (r#"{"properties":{"a":{"type":["string","string"]}}}"#, "c:\nstring type is duplicated"),
    (r#"{"properties":{"a":{"not":5}}}"#, "c:\nnot must be of an object"),
    (r#"{"properties":{"a":{"anyOf":{}}}}"#, "c:\nanyOf must be of an array"),
];

/// Schemas that Helm 4 rejects.
#[rustfmt::skip]
const REJECTED_BY_HELM_4: &[(&str, &str)] = &[
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"strin"}}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'http://json-schema.org/draft-07/schema#'\n- at '/properties/a/type': 'anyOf' failed\n  - at '/properties/a/type': value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'\n  - at '/properties/a/type': got string, want array"),
    (r#"{"properties":{"a":{"type":"strin"}}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'https://json-schema.org/draft/2020-12/schema#'\n- at '': 'allOf' failed\n  - at '/properties/a': 'allOf' failed\n    - at '/properties/a/type': 'anyOf' failed\n      - at '/properties/a/type': value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'\n      - at '/properties/a/type': got string, want array"),
    (r#"{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"minLength":-1}}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'https://json-schema.org/draft/2019-09/schema#'\n- at '': 'allOf' failed\n  - at '/properties/a': 'allOf' failed\n    - at '/properties/a/minLength': minimum: got -1, want 0"),
    (r#"{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":true}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'http://json-schema.org/draft-04/schema#'\n- at '/properties/a': got boolean, want object"),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"enum":[1,1]}}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'http://json-schema.org/draft-07/schema#'\n- at '/properties/a/enum': items at 0 and 1 are equal"),
    (r#"{"properties":{"a":{"pattern":"["}}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'https://json-schema.org/draft/2020-12/schema#'\n- at '': 'allOf' failed\n  - at '/properties/a': 'allOf' failed\n    - at '/properties/a/pattern': '[' is not valid regex: error parsing regexp: missing closing ]: `[`"),
    (r#"{"required":"x"}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'https://json-schema.org/draft/2020-12/schema#'\n- at '': 'allOf' failed\n  - at '/required': got string, want array"),
    (r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"anyOf":[]}}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'http://json-schema.org/draft-07/schema#'\n- at '/properties/a/anyOf': minItems: got 0, want 1"),
    (r#"{"properties":{"a":{"items":5}}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'https://json-schema.org/draft/2020-12/schema#'\n- at '': 'allOf' failed\n  - at '/properties/a': 'allOf' failed\n    - at '/properties/a/items': got number, want boolean or object"),
    (r#"{"properties":{"a":{"exclusiveMinimum":true}}}"#, "c:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'https://json-schema.org/draft/2020-12/schema#'\n- at '': 'allOf' failed\n  - at '/properties/a': 'allOf' failed\n    - at '/properties/a/exclusiveMinimum': got boolean, want number"),
];

fn map(text: &str) -> Map {
    match Value::from(&json::parse(text).unwrap()) {
        Value::Map(map) => map,
        _ => panic!("{text}"),
    }
}

fn chart(schema: &str) -> Chart {
    let mut chart = Chart { schema: Some(Bytes::from(schema.to_owned())), ..Chart::default() };
    chart.metadata.name = "c".into();
    chart
}

fn validation_error(schema: &str, values: &Map, profile: Profile) -> String {
    let head = "values don't meet the specifications of the schema(s) in the following chart(s):\n";
    match check(&chart(schema), values, profile, &Budget::default(), &mut vec![]) {
        Ok(()) => String::new(),
        Err(error) => error.strip_prefix(head).unwrap().to_owned(),
    }
}

#[test]
fn check_reports_errors_like_helm() {
    for (schema, values, helm3, helm4) in VALIDATION_ERRORS {
        let values = map(values);
        assert_eq!(validation_error(schema, &values, Profile::Helm3), *helm3, "Helm 3: {schema}");
        assert_eq!(validation_error(schema, &values, Profile::Helm4), *helm4, "Helm 4: {schema}");
    }
}

#[test]
fn helm3_schema_errors_match_helm() {
    for (schema, error) in REJECTED_BY_HELM_3 {
        assert_eq!(validation_error(schema, &Map::new(), Profile::Helm3), *error, "{schema}");
    }
}

#[test]
fn helm4_validates_schema_against_metaschema() {
    for (schema, error) in REJECTED_BY_HELM_4 {
        assert_eq!(validation_error(schema, &Map::new(), Profile::Helm4), *error, "{schema}");
    }
}

#[test]
fn check_lists_errors_by_chart() {
    let mut parent = chart(r#"{"required":["x"]}"#);
    let mut child = chart(r#"{"properties":{"a":{"type":"string"}}}"#);
    child.metadata.name = "sub".into();
    parent.dependencies.push(child);
    let error = check(&parent, &map(r#"{"sub":{"a":1}}"#), Profile::Helm4, &Budget::default(), &mut vec![])
        .unwrap_err();
    let expected = "values don't meet the specifications of the schema(s) in the following chart(s):\nc:\n- at '': \
                    missing property 'x'\nsub:\n- at '/a': got number, want string\n";
    assert_eq!(&*error, expected);
}

#[test]
fn check_rejects_cyclic_long_and_external_references() {
    let mut chain = String::from(r##"{"$ref":"#/$defs/d0","$defs":{"##);
    for n in 0..10_000 {
        let _ = write!(chain, r##""d{n}":{{"$ref":"#/$defs/d{}"}},"##, n + 1);
    }
    chain += r#""d10000":{"type":"string"}}}"#;
    let deep = format!("{}true{}", r#"{"not":"#.repeat(700), "}".repeat(700));
    let cases = [
        (r##"{"$ref":"#"}"##, "reference"),
        (r##"{"properties":{"a":{"$ref":"#/properties/a"}}}"##, "reference"),
        (chain.as_str(), "references"),
        (deep.as_str(), "nested deeper than 500"),
        (r#"{"$ref":"https://example.com/schema.json"}"#, "references to other documents are not followed"),
        (r#"{"$ref":"file:///etc/passwd"}"#, "references to other documents are not followed"),
    ];
    for (schema, expected) in cases {
        for profile in [Profile::Helm3, Profile::Helm4] {
            let complaint = validation_error(schema, &map(r#"{"a":1}"#), profile);
            assert!(complaint.starts_with("c:\n"), "{complaint}");
            assert!(complaint.contains(expected), "{expected}: {complaint}");
        }
    }
}

fn any_json() -> impl Strategy<Value = Data> {
    let keyword = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "$ref",
        "anyOf",
        "not",
        "enum",
        "required",
        "minimum",
        "pattern",
        "a",
        "#",
        "if",
        "then",
        "$id",
        "dependencies",
        "additionalProperties",
        "contains",
        "format",
        "unevaluatedProperties",
    ]);
    let leaf = prop_oneof![
        Just(Data::Null),
        any::<bool>().prop_map(Data::Bool),
        (-3..4_i32).prop_map(|n| Data::Float(f64::from(n))),
        prop::sample::select(vec!["string", "object", "#", "#/not", "a", "[", "date", "urn:x"])
            .prop_map(Data::string),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Data::List),
            prop::collection::btree_map(keyword.clone().prop_map(std::convert::Into::into), inner, 0..5)
                .prop_map(Data::Map),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_panics(schema in any_json(), values in any_json()) {
        let schema = json::write(&schema, json::JsonStyle::Raw).unwrap();
        let Value::Map(values) = Value::from(&values) else { return Ok(()) };
        validation_error(&schema, &values, Profile::Helm3);
        validation_error(&schema, &values, Profile::Helm4);
    }
}
